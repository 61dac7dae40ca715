package helm

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/driver-container/driver-container/ci/cluster/control"
	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

// TestTwoReleases installs releases with every object of the chart in one cluster: with one name in two namespaces,
// with two names in one, and with names that are the same after they are joined with those of their namespaces. Each
// of them can be removed, and leaves all objects of the others.
func TestTwoReleases(t *testing.T) {
	p := control.Start(t, control.Config{Controllers: true})
	monitoring(t, p)
	nodeFeatures(t, p)
	readiness(t, p)
	values := filepath.Join(t.TempDir(), "values.yaml")
	require.NoError(t, os.WriteFile(values, []byte(everything), 0o600))
	releases := []struct{ name, namespace string }{
		{"gpu", "first"}, {"gpu", "second"}, {"other", "first"}, {"nvidia-driver", "gpu-a"}, {"nvidia-driver-gpu", "a"},
	}
	for _, release := range []string{"first", "second", "gpu-a", "a"} {
		namespace(t, p, release)
	}
	var before [][]string
	for _, release := range releases {
		before = append(before, inventory(t, p))
		p.Helm("install", release.name, chart, "-n", release.namespace, "--values", values)
	}
	for i, release := range slices.Backward(releases) {
		p.Helm("uninstall", release.name, "-n", release.namespace, "--wait", "--timeout=2m")
		assert.Samef(t, before[i], inventory(t, p), "without %s in %s (-before +now)", release.name, release.namespace)
	}
}
