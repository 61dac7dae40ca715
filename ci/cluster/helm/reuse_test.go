package helm

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/driver-container/driver-container/ci/cluster/control"
	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

// An upgrade with --reuse-values has the values of the chart that was installed, and no defaults of this one. What this one
// no longer has is named with the way out; what it has and that chart did not have gets its default.
func TestReuseValues(t *testing.T) {
	p := control.Start(t, control.Config{})
	namespace(t, p, "gpu")
	p.Helm(append([]string{"install", "older", previous, "-n", "gpu"}, minimal()...)...)
	_, err := p.TryHelm("upgrade", "older", chart, "-n", "gpu", "--reuse-values")
	assert.ErrorContainsf(t, err, "Upgrade with --reset-then-reuse-values instead of --reuse-values", "the values of an older chart")
	p.Helm("upgrade", "older", chart, "-n", "gpu", "--reset-then-reuse-values")
	p.Helm("uninstall", "older", "-n", "gpu")

	bare := filepath.Join(t.TempDir(), "nvidia-driver")
	require.NoError(t, os.CopyFS(bare, os.DirFS(chart)))
	require.NoError(t, os.WriteFile(filepath.Join(bare, "values.yaml"), []byte("image: {}\n"), 0o600))
	p.Helm(append([]string{"install", "bare", bare, "-n", "gpu"}, minimal()...)...)
	first := p.Kubectl("get", "daemonset/bare-nvidia-driver", "-n", "gpu", "-o", "jsonpath={.spec}")
	p.Helm("upgrade", "bare", chart, "-n", "gpu", "--reuse-values", "--set", "nodeCondition=true", "--set", "startupTaints={example.com/starting}")
	p.Helm("rollback", "bare", "1", "-n", "gpu")
	assert.Equalf(t, first, p.Kubectl("get", "daemonset/bare-nvidia-driver", "-n", "gpu", "-o", "jsonpath={.spec}"), "rolled back")
}
