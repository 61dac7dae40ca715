package helm

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/driver-container/driver-container/ci/cluster/control"
	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/images/rehearse"
)

// TestRehearsedPod: without values, driver-build rehearse starts a driver as the chart does by its defaults; with
// values, as helm renders them. Values of another chart are refused.
func TestRehearsedPod(t *testing.T) {
	t.Setenv("PATH", control.Bin(t)+":"+os.Getenv("PATH"))
	render := func(values string) (rehearse.Pod, error) {
		file := filepath.Join(t.TempDir(), "values.yaml")
		testfile.Write(t, file, values)
		return rehearse.Render(t.Context(), chart, file, "oci:dist")
	}
	const image = "image: {repository: registry.example.com/driver, tag: 535.261.03-debian12}\n"
	usual := rehearse.ChartPod().Container
	pod, err := render(image)
	require.NoError(t, err)
	c := pod.Container
	assert.Samef(t, []any{usual.Command, usual.Args, usual.HostDev}, []any{c.Command, c.Args, c.HostDev}, "(-here +chart)")
	assert.Samef(t, usual.Mounts, c.Mounts, "(-here +chart)")
	pod, err = render(image + "moduleParameters: {nvidia: {NVreg_EnableMSI: 0}}\nkernelModuleType: open\nhostStateDir: /data/driver\n")
	require.NoError(t, err)
	assert.Equal(t, 1, len(pod.Files))
	for _, m := range pod.Container.Mounts {
		if m.Guest == "/var/lib/nvidia-driver" {
			assert.Equal(t, "/data/driver", m.Host)
		}
	}
	assert.Equal(t, true, slices.Contains(pod.Container.Env, "KERNEL_MODULE_TYPE=open"))
	_, err = render("operator: {defaultRuntime: containerd}\n")
	assert.ErrorContains(t, err, "helm template")
}
