package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/gate"
	"github.com/driver-container/driver-container/ci/kbuildtest"
	"github.com/driver-container/driver-container/ci/require"
	"github.com/driver-container/driver-container/ci/testfile"
	"github.com/driver-container/driver-container/ci/tool"
	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/node/config"
	"github.com/driver-container/driver-container/node/drivertoolkit"
)

// operatorsCommand is the command line of openshift-driver-toolkit-ctr, as the GPU Operator writes it.
const operatorsCommand = "until [ -f /mnt/shared-nvidia-driver-toolkit/dir_prepared ]; do echo  Waiting for nvidia-driver-ctr container to prepare the shared directory ...; sleep 10; done; exec /mnt/shared-nvidia-driver-toolkit/ocp_dtk_entrypoint dtk-build-driver"

// TestDriverToolkit runs this program in both containers of a pod, in mount namespaces with roots of their
// own: the driver container has no compiler and no shell, the toolkit container nothing of the driver.
func TestDriverToolkit(t *testing.T) {
	t.Parallel()
	gate.Root(t, "for mount namespaces")
	image, toolkit, shared := t.TempDir(), t.TempDir(), t.TempDir()
	kbuildtest.Image(t, image)
	path := kbuildtest.Toolkit(t, toolkit, kbuildtest.Kernel, "cp KOS/*.ko .")
	program := filepath.Join(image, "usr/local/bin", drivertoolkit.Program)
	require.NoError(t, os.MkdirAll(filepath.Dir(program), 0o755))
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".").CombinedOutput()
	require.NoErrorf(t, err, "%s", out)
	for _, dir := range []string{"/proc", "/dev", "/sys", "/tmp", "/var/tmp", drivertoolkit.DefaultDir} {
		require.NoError(t, os.MkdirAll(filepath.Join(image, dir), 0o755))
	}

	const driverScript = `set -e; mount --bind "$SHARED" "$IMAGE/mnt/shared-nvidia-driver-toolkit"; mount -t proc proc "$IMAGE/proc"; mount --rbind /sys "$IMAGE/sys"; exec chroot "$IMAGE" "$@"`
	driver := func(args ...string) (stdout, stderr string, err error) {
		cmd := exec.CommandContext(t.Context(), "unshare", append([]string{"--mount", "sh", "-c", driverScript, "sh", "/usr/local/bin/" + drivertoolkit.Program}, args...)...)
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "SHARED=" + shared, "IMAGE=" + image}
		var stdoutText, stderrText strings.Builder
		cmd.Stdout, cmd.Stderr = &stdoutText, &stderrText
		err = cmd.Run()
		return stdoutText.String(), stderrText.String(), err
	}
	// The toolkit's root is this machine's, with other headers, another folder at /mnt, and a scratch folder of its own.
	const toolkitScript = `set -e; mount -t tmpfs tmpfs /var/tmp; mount -t tmpfs tmpfs /mnt; mkdir /mnt/shared-nvidia-driver-toolkit; mount --bind "$SHARED" /mnt/shared-nvidia-driver-toolkit; mount --bind "$TOOLKIT/usr/src" /usr/src; exec bash -xc "$1"`
	second := exec.Command("unshare", "--mount", "sh", "-c", toolkitScript, "sh", operatorsCommand) //nolint:noctx // killed below
	var log tool.Buffer
	second.Env = []string{"PATH=" + path + ":" + os.Getenv("PATH"), "SHARED=" + shared, "TOOLKIT=" + toolkit, "GDS_ENABLED=true"}
	second.Stdout, second.Stderr = &log, &log
	second.SysProcAttr, second.WaitDelay = &syscall.SysProcAttr{Setpgid: true}, time.Minute

	// No GPU: the start ends before modules matter, and the toolkit container may start.
	_, stderr, err := driver("nv-ctr-run-with-dtk")
	if !exitsWith(err, exitUnsupported) || !strings.Contains(stderr, "gpu: ") {
		t.Errorf("%v: %s", err, stderr)
	}
	t.Logf("without a GPU: %s", stderr)
	assert.Containsf(t, testfile.Read(t, filepath.Join(shared, "request.json")), `"compile":false`, "request")
	require.NoError(t, second.Start())
	t.Cleanup(func() {
		_ = syscall.Kill(-second.Process.Pid, syscall.SIGKILL)
		_ = second.Wait()
	})
	made, stderr, err := driver("compile", "--kernel", kbuildtest.Kernel, "--fetch-headers=false")
	require.NoErrorf(t, err, "%s\ntoolkit: %s", stderr, log.String())
	assert.Contains(t, stderr, "waiting for the Driver Toolkit container")
	for _, name := range kbuildtest.Modules {
		assert.Equalf(t, kbuildtest.Module(strings.ReplaceAll(name, "-", "_"), kbuildtest.Driver, kbuildtest.Kernel), testfile.Read(t, filepath.Join(image, strings.TrimSpace(made), name+".ko")), "%s", name)
	}
	for end := time.Now().Add(2 * time.Minute); !strings.Contains(log.String(), "the modules are ready") && time.Now().Before(end); {
		time.Sleep(20 * time.Millisecond)
	}
	assert.Contains(t, log.String(), "set the variable for that container, too module="+driverinfo.NvidiaFS)

	// The toolkit is for one kernel only.
	_, stderr, err = driver("compile", "--kernel", "6.1.0-57-amd64", "--fetch-headers=false")
	if !exitsWith(err, exitUnsupported) || !strings.Contains(stderr, "the toolkit is for kernel "+kbuildtest.Kernel) && !strings.Contains(stderr, ", "+kbuildtest.Kernel) {
		t.Errorf("%v: %s", err, stderr)
	}
	_, err = os.Stat(filepath.Join(shared, "driver_toolkit_broken"))
	assert.NoErrorf(t, err, "the flag")
}

func exitsWith(err error, code int) bool {
	exit, ok := errors.AsType[*exec.ExitError](err)
	return ok && exit.ExitCode() == code
}

// TestMissingToolkit: the image stream tag that the operator did not find is named.
func TestMissingToolkit(t *testing.T) {
	t.Parallel()
	for want, env := range map[string][]string{
		"":                                      {"RHCOS_VERSION=418.94.1", "RHCOS_IMAGE_MISSING=false"},
		"driver-toolkit:418.94.1":               {"RHCOS_VERSION=418.94.1", "RHCOS_IMAGE_MISSING=true"},
		"driver-toolkit of this node's version": {"RHCOS_IMAGE_MISSING=true"},
	} {
		c := config.Defaults()
		c.Toolkit = drivertoolkit.DefaultDir
		complete(&c, env)
		assert.Equal(t, want, c.ToolkitMissing)
		assert.Equal(t, want == "", c.HasToolkit())
	}
}

// TestSidecars: the verbs that stand in for NVIDIA's sidecars do not wait without end.
func TestSidecars(t *testing.T) {
	t.Parallel()
	for verb, variable := range map[string]string{"nv-fs-ctr-run-with-dtk": "GDS_ENABLED=true", "gdrcopy-ctr-run-with-dtk": "GDRCOPY_ENABLED=true"} {
		var stdout, stderr bytes.Buffer
		code := run([]string{drivertoolkit.Program, verb, "--timeout", "10ms"}, nil, true, &stdout, &stderr)
		if code != exitNotReady || !strings.Contains(stderr.String(), variable+" is set for nvidia-driver-ctr") {
			t.Errorf("%s: %d, %s", verb, code, stderr.String())
		}
	}
}
