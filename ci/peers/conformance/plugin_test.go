package conformance

import (
	"context"
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

// pluginRoot is where the container of a plugin has the driver root.
const pluginRoot = "/run/driver-root"

// served serves a driver root with the mock's library in it, and a kubelet's folders.
func (m mocked) served(ctx context.Context) {
	t := m.T
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
	require.NoError(t, os.MkdirAll(pluginRoot, 0o755))
	require.NoError(t, unix.Mount(driverRoot, pluginRoot, "", unix.MS_BIND|unix.MS_REC, ""))
	t.Cleanup(func() { assert.NoError(t, unix.Unmount(pluginRoot, unix.MNT_DETACH)) })
}

// with runs a plugin while f runs, which has its log.
func (m mocked) with(ctx context.Context, f func(log *tool.Buffer), program string, args ...string) {
	var log tool.Buffer
	plugin := exec.CommandContext(ctx, program, args...)
	plugin.Env = append(os.Environ(), "MOCK_NVML_CONFIG="+m.config)
	plugin.Stderr = &log
	require.NoError(m.T, plugin.Start())
	defer func() {
		require.NoError(m.T, plugin.Process.Signal(syscall.SIGTERM))
		assert.NoErrorf(m.T, plugin.Wait(), "%s", log.String())
	}()
	f(&log)
}

// inRoot requires that all host paths of a CDI specification are below the driver root.
func inRoot(t *testing.T, text string) {
	t.Helper()
	for part := range strings.SplitSeq(text, `"hostPath":`) {
		path := ""
		err := json.NewDecoder(strings.NewReader(part)).Decode(&path)
		if err == nil && !strings.HasPrefix(path, driverRoot+"/") {
			t.Errorf("the specification has %s, outside of the driver root", path)
		}
	}
}

// NVIDIA's device plugin finds the GPUs through the library in the root that the entrypoint serves, registers
// them, and allocates one. All paths of its CDI specification are below that root.
func TestMockNVMLPlugin(t *testing.T) {
	ctx := private(t)
	m := newMocked(t)
	programs := devicePlugin.programs(t)
	m.served(ctx)
	const sockets = "/var/lib/kubelet/device-plugins"
	require.NoError(t, os.MkdirAll(sockets, 0o755))
	said := ""
	m.with(ctx, func(log *tool.Buffer) {
		var err error
		said, err = tool.Run(ctx, "", nil, filepath.Join(programs, "registrar"), sockets+"/kubelet.sock")
		require.NoErrorf(t, err, "%s", log.String())
	}, filepath.Join(programs, "nvidia-device-plugin"), "--driver-root="+driverRoot, "--dev-root="+driverRoot, "--driver-root-ctr-path="+pluginRoot,
		"--device-discovery-strategy=nvml", "--device-list-strategy=cdi-cri", "--nvidia-cdi-hook-path="+hookPath)
	for _, part := range []string{`"resource_name":"nvidia.com/gpu"`, `{"ID":"GPU-01000100-0000-0000-0000-000000000000","health":"Healthy"}`, `{"ID":"GPU-01000100-0000-0000-0000-000000000001","health":"Healthy"}`,
		`"cdi_devices":[{"name":"k8s.device-plugin.nvidia.com/gpu=GPU-01000100-0000-0000-0000-00000000000`} {
		assert.Contains(t, said, part)
	}
	text := require.Value(os.ReadFile("/run/cdi/k8s.device-plugin.nvidia.com-gpu.json"))(t)
	found := require.Value(inventory(text))(t)
	assert.Equal(t, [3]bool{true, true, true}, [3]bool{len(found.Libraries) >= 20, len(found.Firmware) == 2, len(found.Devices) == 6})
	inRoot(t, string(text))
}
