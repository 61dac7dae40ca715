package host

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/kmod"
)

func TestInstances(t *testing.T) {
	t.Parallel()
	proc := t.TempDir()
	const uid = "9c1d2e3f-0a1b-4c2d-8e3f-0123456789ab"
	id := func(c string) string { // of a container
		for len(c) < 64 {
			c += c
		}
		return c[:64]
	}
	for pid, p := range map[string][2]string{
		"10": {"/usr/local/bin/nvidia-driver\x00init\x00", "0::/kubepods/pod" + uid + "/" + id("a") + "\n"}, // the shim
		"11": {"nvidia-driver\x00init\x00", "0::/kubepods/pod" + uid + "/" + id("a") + "\n"},
		"20": {"driver-entrypoint\x00--accept-license\x00", "0::/docker/" + id("b") + "\n"},
		"30": {"nvidia-driver\x00probe\x00ready\x00", ""}, "31": {"bash\x00init\x00", ""}, "32": {"", ""}, "33": {"nvidia-driver\x00", ""},
		"40": {"nvidia-driver\x00-a\x00", ""}, "self": {"nvidia-driver\x00init\x00", ""},
	} {
		dir := filepath.Join(proc, pid)
		require.NoError(t, os.MkdirAll(dir, 0o700))
		for name, text := range map[string]string{"cmdline": p[0], "cgroup": p[1], "comm": "nvidia-driver\n"} {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
		}
	}
	require.NoError(t, os.MkdirAll(filepath.Join(proc, "1/root/var/log/pods/gpu_driver-x_"+uid), 0o700))
	want := []kmod.Holder{
		{PID: 11, Command: "nvidia-driver", Container: id("a"), Pod: uid, PodName: "driver-x", PodNamespace: "gpu"},
		{PID: 20, Command: "nvidia-driver", Container: id("b")}, {PID: 40, Command: "nvidia-driver"},
	}
	assert.Same(t, want, Instances(proc))
	assert.Equal(t, 0, len(Instances("/proc/nowhere")))
}
