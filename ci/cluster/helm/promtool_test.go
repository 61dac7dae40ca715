package helm

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/tool"
)

// promtool runs promtool in a folder and returns its output; an error means that promtool found a fault.
func promtool(t *testing.T, dir string, stdin []byte, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "promtool", args...)
	cmd.Dir, cmd.Stdin = dir, bytes.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, out)
	}
	return string(out), err
}

// TestServedNames: promtool finds no fault in the metrics that are served.
func TestServedNames(t *testing.T) {
	t.Parallel()
	tool.Real(t, "needs the Debian package prometheus")
	page := fetch(t, "http://"+serve(t, waiting())+"/metrics")
	if out, err := promtool(t, ".", page, "check", "metrics"); err != nil || strings.TrimSpace(out) != "" {
		t.Errorf("%v\n%s", err, out)
	}
	assert.Errorf(t, assert.Err(promtool(t, ".", []byte("# TYPE a_total gauge\na_total 1\n"), "check", "metrics")), "promtool is content with everything")
}

// TestRules: promtool's unit tests of the rules pass, and every rule has a test that would notice if the rule
// never fired.
func TestRules(t *testing.T) {
	t.Parallel()
	tool.Real(t, "needs the Debian package prometheus")
	assert.NoError(t, assert.Err(promtool(t, chartFiles, nil, "check", "rules", "--lint-fatal", "alerts.yaml")))
	text := string(require.Value(os.ReadFile(chartFiles + "alerts.yaml"))(t))
	tests := string(require.Value(os.ReadFile("testdata/alerts_test.yaml"))(t))
	run := func(rules string) (string, error) {
		dir := t.TempDir()
		for name, data := range map[string]string{"alerts.yaml": rules, "alerts_test.yaml": tests} {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(data), 0o600))
		}
		return promtool(t, dir, nil, "test", "rules", "alerts_test.yaml")
	}
	assert.NoError(t, assert.Err(run(text)))
	for _, r := range readRules(t).Groups[0].Rules {
		assert.Errorf(t, assert.Err(run(strings.Replace(text, "- alert: "+r.Alert+"\n", "- alert: "+r.Alert+"Not\n", 1))), "without %s the tests pass", r.Alert)
	}
}

// TestDocumentedConfiguration: the configuration in docs/operate.md is valid. Debian builds Prometheus
// without the discovery of pods: the test replaces that one line.
func TestDocumentedConfiguration(t *testing.T) {
	t.Parallel()
	tool.Real(t, "needs the Debian package prometheus")
	docs := require.Value(os.ReadFile("../../../docs/operate.md"))(t)
	_, rest, ok := strings.Cut(string(docs), "```yaml\n")
	config, _, closed := strings.Cut(rest, "```")
	const discovery = "kubernetes_sd_configs: [{role: pod}]"
	if !ok || !closed || !strings.Contains(config, discovery) {
		t.Fatal("no configuration in docs/operate.md")
	}
	config = strings.Replace(config, discovery, "static_configs: [{targets: [localhost:9835]}]", 1)
	path := filepath.Join(t.TempDir(), "prometheus.yml")
	require.NoError(t, os.WriteFile(path, []byte(config), 0o600))
	assert.NoError(t, assert.Err(promtool(t, ".", nil, "check", "config", path)))
}
