package host

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/require"
	"github.com/driver-container/driver-container/ci/testfile"
	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/node/config"
)

// TestKernelHook runs the hook as the host's package manager does: it enters only a serving container of this
// program, and never fails.
func TestKernelHook(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cfg := config.Defaults()
	cfg.StateDir, cfg.SigningKey, cfg.RDMA = "/var/lib/it's", "/keys/k", true
	h := kernelHook{path: filepath.Join(dir, "hooks", hookName), text: strings.ReplaceAll(hookText(cfg), "/run/nvidia/", dir+"/")}
	testfile.Tree(t, dir, map[string]string{
		"bin/nsenter":  "#!/bin/sh\nprintf '%s|' \"$@\" >>" + dir + "/entered\nexit 12\n",
		"bin/readlink": "#!/bin/sh\ncat " + dir + "/exe\n", "hooks/x": "",
	})
	require.NoError(t, h.WriteKernelHook())
	if info, err := os.Stat(h.path); err != nil || info.Mode().Perm() != 0o755 {
		t.Fatalf("%v, %v", info, err)
	}
	run := func(args ...string) string {
		t.Helper()
		// The shell reads the file. To execute it fails (ETXTBSY) while a child that another test starts still has
		// the descriptor that wrote it.
		cmd := exec.Command("/bin/sh", append([]string{h.path}, args...)...)
		cmd.Env = []string{"PATH=" + dir + "/bin:" + os.Getenv("PATH")}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%q: %v\n%s", args, err, out)
		}
		text, _ := os.ReadFile(dir + "/entered")
		_ = os.Remove(dir + "/entered")
		return string(text)
	}
	pid := strconv.Itoa(os.Getpid())
	const ready, program = "{\n  \"ready\": true,\n}\n", "/usr/local/bin/driver-entrypoint\n"
	for name, test := range map[string]struct{ status, pid, exe string }{
		"no container": {"", "", ""}, "not ready": {`{"ready": false}`, pid, program}, "no pid": {ready, "", program}, "nonsense": {ready, "1;reboot", program},
		"another program": {ready, pid, "/usr/bin/bash\n"},
	} {
		testfile.Write(t, dir+"/driver-status.json", test.status)
		testfile.Write(t, dir+"/nvidia-driver.pid", test.pid)
		testfile.Write(t, dir+"/exe", test.exe)
		assert.Equalf(t, "", run("6.1.0-40-amd64"), "%s: entered", name)
	}
	testfile.Write(t, dir+"/driver-status.json", ready)
	testfile.Write(t, dir+"/nvidia-driver.pid", pid+"\n")
	testfile.Write(t, dir+"/exe", program)
	assert.Equalf(t, "", run(), "without a kernel")
	want := "-t|" + pid + "|-m|--|/usr/local/bin/nvidia-driver|compile|--kernel-module-type|auto|--state-dir|/var/lib/it's|--drivers-dir|/drivers|--rdma|--module-signing-key|/keys/k|--kernel|6.1.0-40-amd64|"
	assert.Equalf(t, want, run("6.1.0-40-amd64", "/boot/vmlinuz-6.1.0-40-amd64"), "entered with")
	if err := h.RemoveKernelHook(); err != nil || h.RemoveKernelHook() != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(dir + "/hooks"); err != nil || len(left) != 1 {
		t.Errorf("left %v, %v", left, err)
	}
}

func TestNoKernelHook(t *testing.T) {
	t.Parallel()
	cfg := config.Defaults()
	cfg.KernelHooks = t.TempDir() // not mounted
	h, err := newKernelHook(cfg, driverinfo.Description{Toolchain: true}, false)
	if err != nil || h.path != "" || h.WriteKernelHook() != nil || h.RemoveKernelHook() != nil {
		t.Errorf("%+v, %v", h, err)
	}
	cfg.KernelHooks, cfg.StateDir = "/proc", t.TempDir() // mounted, and all else is missing
	h, err = newKernelHook(cfg, driverinfo.Description{Toolchain: true}, false)
	if err == nil || h.path != "" || !strings.Contains(err.Error(), "/proc") {
		t.Errorf("%+v, %v", h, err)
	}
	if h, err = newKernelHook(cfg, driverinfo.Description{}, false); err != nil || h.path != "" {
		t.Errorf("an image that compiles nothing: %+v, %v", h, err)
	}
	h = kernelHook{path: "/proc/nowhere/x"}
	assert.Errorf(t, h.WriteKernelHook(), "a folder that cannot be written")
}
