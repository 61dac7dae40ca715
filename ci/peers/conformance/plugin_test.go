package conformance

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/logtest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/tool"
	"github.com/driver-container/driver-container/node/driverroot"
)

// NVIDIA's device plugin finds the GPUs through the library in the root that the entrypoint serves, registers
// them, and allocates one. All paths of its CDI specification are below that root.
func TestMockNVMLPlugin(t *testing.T) {
	ctx := private(t)
	m := newMocked(t)
	programs := devicePlugin.programs(t)
	image := unpacked(t, "full").container(t, true)
	library := filepath.Join(image, libs, "libnvidia-ml.so."+driver)
	require.NoError(t, os.Remove(library)) // the tree has links to the image's files
	tool.Must(t, "cp", filepath.Join(m.judge, "libnvidia-ml.so."+driver), library)
	root := &driverroot.Root{Target: driverRoot, Image: image, ID: "0123456789abcdef", Version: driver, Log: logtest.New(t)}
	staged := require.Value(root.Stage(ctx, nil))(t)
	require.NoError(t, root.Mount(ctx, staged))
	t.Cleanup(func() { assert.NoError(t, root.Unmount(ctx)) })
	require.NoError(t, unix.Mount("tmpfs", "/var/lib", "tmpfs", 0, "mode=755"))
	t.Cleanup(func() { assert.NoError(t, unix.Unmount("/var/lib", 0)) })
	const sockets = "/var/lib/kubelet/device-plugins"
	require.NoError(t, os.MkdirAll(sockets, 0o755))
	require.NoError(t, os.Mkdir("/run/driver-root", 0o755)) // where the plugin's container has the root
	require.NoError(t, unix.Mount(driverRoot, "/run/driver-root", "", unix.MS_BIND|unix.MS_REC, ""))
	t.Cleanup(func() { assert.NoError(t, unix.Unmount("/run/driver-root", unix.MNT_DETACH)) })

	var log tool.Buffer
	plugin := exec.CommandContext(ctx, filepath.Join(programs, "nvidia-device-plugin"),
		"--driver-root="+driverRoot, "--dev-root="+driverRoot, "--driver-root-ctr-path=/run/driver-root", "--device-discovery-strategy=nvml",
		"--device-list-strategy=cdi-cri", "--nvidia-cdi-hook-path="+hookPath)
	plugin.Env = append(os.Environ(), "MOCK_NVML_CONFIG="+m.config)
	plugin.Stderr = &log
	plugin.Cancel = func() error { return plugin.Process.Signal(syscall.SIGTERM) }
	require.NoError(t, plugin.Start())
	said, err := tool.Run(ctx, "", nil, filepath.Join(programs, "registrar"), sockets+"/kubelet.sock")
	require.NoError(t, plugin.Process.Signal(syscall.SIGTERM))
	assert.NoError(t, plugin.Wait())
	require.NoErrorf(t, err, "%s", log.String())
	for _, part := range []string{`"resource_name":"nvidia.com/gpu"`, `{"ID":"GPU-01000100-0000-0000-0000-000000000000","health":"Healthy"},{"ID":"GPU-01000100-0000-0000-0000-000000000001","health":"Healthy"}`,
		`"cdi_devices":[{"name":"k8s.device-plugin.nvidia.com/gpu=GPU-01000100-0000-0000-0000-000000000000"}]`} {
		assert.Contains(t, said, part)
	}
	text := require.Value(os.ReadFile("/run/cdi/k8s.device-plugin.nvidia.com-gpu.json"))(t)
	found := require.Value(inventory(text))(t)
	assert.Equal(t, [3]bool{true, true, true}, [3]bool{len(found.Libraries) >= 20, len(found.Firmware) == 2, len(found.Devices) == 6})
	for part := range strings.SplitSeq(string(text), `"hostPath":`) {
		path := ""
		err := json.NewDecoder(strings.NewReader(part)).Decode(&path)
		if err == nil && !strings.HasPrefix(path, driverRoot+"/") {
			t.Errorf("the specification has %s, outside of the driver root", path)
		}
	}
}
