package main

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

// previousChart returns the templates of the released chart before this one.
func previousChart(t *testing.T) map[string]string {
	t.Helper()
	f := require.Value(os.Open("../../ci/cluster/helm/testdata/previous.tgz"))(t)
	defer f.Close()
	archive := tar.NewReader(require.Value(gzip.NewReader(f))(t))
	templates := map[string]string{}
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return templates
		}
		require.NoError(t, err)
		if dir, name := filepath.Split(h.Name); strings.HasSuffix(dir, "templates/") {
			templates[name] = string(require.Value(io.ReadAll(archive))(t))
		}
	}
}

func thisChart(t *testing.T) map[string]string {
	t.Helper()
	templates := map[string]string{}
	for _, path := range require.Value(filepath.Glob("../../deploy/chart/templates/*"))(t) {
		if info, err := os.Stat(path); err == nil && !info.IsDir() {
			templates[filepath.Base(path)] = string(require.Value(os.ReadFile(path))(t))
		}
	}
	return templates
}

var (
	variable  = regexp.MustCompile(`\{name: ([A-Z][A-Z_]+), value`)
	arguments = regexp.MustCompile(`(?m)^ *args: .*$`)
)

// TestCharts checks that images and charts of different versions work together. A chart gives the container
// nothing but `init`, or the name of the program that frees the node, and environment variables: an older image ignores
// variables that it does not know, and would refuse flags. This program knows every variable of the chart before.
func TestCharts(t *testing.T) {
	t.Parallel()
	p := &program{}
	p.command(t.Context())
	for name, templates := range map[string]map[string]string{"this": thisChart(t), "previous": previousChart(t)} {
		var env []string
		for _, found := range variable.FindAllStringSubmatch(templates["_env.tpl"]+templates["_pod.tpl"], -1) {
			env = append(env, found[1]+"=x")
		}
		if len(env) < 20 || slices.Contains(env, "DRIVER_PREFLIGHT_ON_FAILURE=x") != (name == "this") {
			t.Errorf("the variables of %s chart were not found: %q", name, env)
		}
		gone := append(otherVariables(), "DRIVER_ROOT_KIND", "DRIVER_NFD_DIR") // a start says that they are ignored
		assert.Equalf(t, "", strings.Join(p.names.Unknown(env, "DRIVER_", gone...), ", "), "variables of %s chart that this program does not know", name)
		assert.Contains(t, templates["_pod.tpl"], "command: [/usr/bin/"+evictLink+"]\n")
		for file, text := range templates {
			for _, line := range arguments.FindAllString(text, -1) {
				assert.Equalf(t, `args: {{ prepend $v.extraArgs "init" | toJson }}`, strings.TrimSpace(line), "%s chart, %s", name, file)
			}
		}
	}
}
