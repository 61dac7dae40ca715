package helm

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/cluster/control"
	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

// TestNotesCommands upgrades a release with each strategy, and runs every kubectl command of the notes that names no
// pod. With OnDelete nothing is replaced, so that `helm upgrade --wait` of Helm 4 ends in its timeout and leaves a
// failed release, as docs/operate.md says; its way to wait before Helm 4 does not wait for these pods.
func TestNotesCommands(t *testing.T) {
	p := control.Start(t, control.Config{Controllers: true, Scheduler: true, KWOK: true})
	nodes(t, p, "a", "b")
	for _, strategy := range []string{"RollingUpdate", "OnDelete"} {
		t.Run(strategy, func(t *testing.T) {
			p := p.With(t)
			name := strings.ToLower(strategy)
			namespace(t, p, name)
			upgrade := func(driver string, more ...string) error {
				args := []string{"upgrade", "--install", "gpu", chart, "-n", name}
				args = append(args, minimal("updateStrategy.type="+strategy, "image.tag="+driver+"-debian12")...)
				_, err := p.TryHelm(append(args, more...)...)
				return err
			}
			require.NoError(t, upgrade("535.261.03", "--wait", "--timeout=5m"))
			if strategy == "RollingUpdate" {
				require.NoError(t, upgrade("550.163.01", "--wait", "--timeout=5m"))
			} else {
				assert.ErrorContains(t, upgrade("550.163.01", "--wait", "--timeout=5s"), "context deadline exceeded")
				assert.Equal(t, "failed", state(t, p, name))
				require.NoError(t, upgrade("550.163.01", "--wait=legacy", "--timeout=5m"))
				require.NoError(t, upgrade("550.163.01"))
			}
			assert.Equal(t, "deployed", state(t, p, name))
			run(t, p, p.Helm("get", "notes", "gpu", "-n", name))
			p.Helm("uninstall", "gpu", "-n", name, "--wait", "--timeout=2m")
		})
	}
}

// state returns the state of a release.
func state(t *testing.T, p *control.Plane, namespace string) string {
	t.Helper()
	var release struct {
		Info struct{ Status string }
	}
	require.NoError(t, json.Unmarshal([]byte(p.Helm("status", "gpu", "-n", namespace, "-o", "json")), &release))
	return release.Info.Status
}

// run runs the kubectl commands of notes.
func run(t *testing.T, p *control.Plane, notes string) {
	t.Helper()
	count := 0
	for line := range strings.Lines(notes) {
		command, found := strings.CutPrefix(line, "  kubectl ")
		if !found || strings.Contains(command, " POD") {
			continue
		}
		count++
		_, err := p.TryKubectl(strings.Fields(command)...)
		assert.NoErrorf(t, err, "the notes' command kubectl %s", command)
	}
	if count < 2 {
		t.Errorf("the notes have %d commands:\n%s", count, notes)
	}
}
