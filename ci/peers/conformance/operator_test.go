package conformance

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
)

const (
	refcnt      = "sys/module/nvidia/refcnt"
	daemonsFile = "run/nvidia/validations/.driver-daemons-status"
	marker      = "run/nvidia/validations/.driver-ctr-ready"
)

// The operator's commands work in the image with the image's own programs alone, and the probe passes exactly
// when module, daemons and nvidia-smi do, in this order.
func TestOperatorCommands(t *testing.T) {
	private(t)
	image := unpacked(t, "full")
	env := image.config(t).Env
	for _, c := range []struct {
		name, smi string   // smi: a program in the image that answers instead of the real nvidia-smi
		files     []string // files that exist
		status    string   // content of the daemons' status file, "" for none
		want      string   // part of the output
		code      int
	}{
		{name: "nothing is loaded", want: "module nvidia is not loaded", code: 1},
		{name: "the daemons start", files: []string{refcnt}, status: "NotReady", smi: "true", want: "daemons are not ready", code: 1},
		{name: "the daemons say something else", files: []string{refcnt}, status: "Failed", smi: "true", want: "daemons are not ready", code: 1},
		{name: "the driver does not answer", files: []string{refcnt}, status: "Ready", want: "couldn't communicate with the NVIDIA driver", code: 1},
		{name: "ready", files: []string{refcnt}, status: "Ready", smi: "true"},
		{name: "ready without daemons", files: []string{refcnt}, smi: "true"},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := image.container(t, false) // sys is a folder in which a case makes a module
			for _, f := range c.files {
				testfile.Write(t, filepath.Join(root, f), "0\n")
			}
			if c.status != "" {
				testfile.Write(t, filepath.Join(root, daemonsFile), c.status)
			}
			if c.smi != "" {
				require.NoError(t, os.Remove(filepath.Join(root, "usr/bin/nvidia-smi")))
				require.NoError(t, os.Symlink(c.smi, filepath.Join(root, "usr/bin/nvidia-smi")))
			}
			code, output := sh(t, root, append(env, "GDS_ENABLED=true"), StartupProbe)
			if code != c.code || !strings.Contains(output, c.want) {
				t.Errorf("startup probe: exit code %d, want %d with %q:\n%s", code, c.code, c.want, output)
			}
			text, err := os.ReadFile(filepath.Join(root, marker))
			assert.Equalf(t, c.code == 0, err == nil, "marker: %v", err)
			if want := "GDRCOPY_ENABLED: false\nGDS_ENABLED: true\nGPU_DIRECT_RDMA_ENABLED: false\n"; c.code == 0 && string(text) != want {
				t.Errorf("marker: %q, want %q", text, want)
			}
			if code, output := sh(t, root, env, PreStop); code != 0 {
				t.Errorf("preStop: exit code %d: %s", code, output)
			}
			if left, _ := os.ReadDir(filepath.Join(root, "run/nvidia/validations")); len(left) > 0 {
				t.Errorf("preStop left %v", left)
			}
		})
	}
}

// The operator starts the image and its sidecars by these names: it gives the command itself, without a path.
func TestOperatorFindsPrograms(t *testing.T) {
	private(t)
	for kind, sources := range map[string]string{"full": "test -d", "thin": "test ! -e"} {
		i := unpacked(t, kind)
		root, c := i.container(t, false), i.config(t)
		for _, name := range []string{"nvidia-driver", "sh", "mkdir", "cat", "mv", "rm", "nvidia-smi"} {
			if code, output := sh(t, root, c.Env, "command -v "+name); code != 0 {
				t.Errorf("%s is not on the PATH of the %s image: %s", name, kind, output)
			}
		}
		// The sidecars for GDS and GDRCopy compile against the sources; libnvidia-container's legacy mode runs ldconfig, and finds
		// libraries in ld.so.cache only.
		script := "nvidia-driver version && " + sources + " /usr/src/nvidia-" + driver +
			" && /sbin/ldconfig -p | grep ' => /" + libs + "/libcuda.so.1$'"
		if code, output := sh(t, root, c.Env, script); code != 0 {
			t.Errorf("%s image: nvidia-driver version, sources, ldconfig: exit code %d: %s", kind, code, output)
		}
		assert.Equalf(t, "nvidia-driver init", strings.Join(append(c.Entrypoint, c.Cmd...), " "), "the %s image runs", kind)
		for _, want := range []string{
			"DRIVER_VERSION=" + driver, "DRIVER_BRANCH=535", "DRIVER_TYPE=passthrough", "TARGETARCH=amd64", "NVIDIA_VISIBLE_DEVICES=void",
		} {
			assert.Containsf(t, "\n"+strings.Join(c.Env, "\n")+"\n", "\n"+want+"\n", "the %s image's environment has no %s: %q", kind, want, c.Env)
		}
	}
}

// sh runs a script in a root with the image's environment.
func sh(t *testing.T, root string, env []string, script string) (int, string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", script)
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root}
	cmd.Dir, cmd.Env = "/", env
	out, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

// config returns the image's configuration, with its environment and command.
func (i image) config(t *testing.T) v1.Config {
	t.Helper()
	return require.Value(i.ConfigFile())(t).Config
}
