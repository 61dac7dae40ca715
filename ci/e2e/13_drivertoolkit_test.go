package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/require"
	"github.com/driver-container/driver-container/kmod/kbuild"
)

// toolkitCommand is the command line of the container openshift-driver-toolkit-ctr, as the GPU Operator
// writes it.
const toolkitCommand = "until [ -f /mnt/shared-nvidia-driver-toolkit/dir_prepared ]; do echo  Waiting for nvidia-driver-ctr container to prepare the shared directory ...; sleep 10; done; " +
	"exec /mnt/shared-nvidia-driver-toolkit/ocp_dtk_entrypoint dtk-build-driver"

// sharing runs a program in an unpacked image with the shared folder of a pod.
func sharing(shared, root string, args ...string) command {
	script := `mkdir -p "$1$0" && mount --bind "$SHARED" "$1$0" && mount -t proc proc "$1/proc" && mount --rbind /dev "$1/dev" && exec chroot "$@"`
	return command{
		args: append([]string{"unshare", "--mount", "sh", "-c", script, "/mnt/shared-nvidia-driver-toolkit", root}, args...),
		env:  []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C", "SHARED=" + shared},
	}
}

// Test13DriverToolkit: a driver's image without headers gets its modules from a second container, which has
// Debian's headers and compiler and nothing of the driver. They are those that packages give, byte for byte.
// Without the second container, and without its folder, the error says so.
func Test13DriverToolkit(t *testing.T) {
	root := journey(t)
	release := newestKernel(t)
	dir := scratch(t)
	sh(t, "umoci", "unpack", "--image", strings.TrimPrefix(toolkitImage(t, release), "oci:")+":debian12", filepath.Join(dir, "builder"))
	toolkit := filepath.Join(dir, "builder", "rootfs")
	driver := debian(t, "debian12", "470.256.02").unpack(t)
	shared := filepath.Join(dir, "shared")
	require.NoError(t, os.Mkdir(shared, 0o755))
	compile := sharing(shared, driver, "ocp_dtk_entrypoint", "compile", "--kernel", release, "--fetch-headers=false")

	second := sharing(shared, toolkit, "bash", "-xc", toolkitCommand)
	c := exec.Command(second.args[0], second.args[1:]...) //nolint:noctx // ended below
	log := require.Value(os.Create(filepath.Join(dir, "toolkit.log")))(t)
	defer log.Close()
	c.Env, c.Stdout, c.Stderr = second.env, log, log
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.NoError(t, c.Start())
	t.Cleanup(func() {
		_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL)
		_ = c.Wait()
	})
	made := compile.do(t)
	said := require.Value(os.ReadFile(log.Name()))(t)
	if made.code != 0 {
		t.Fatalf("%s\ntoolkit: %s", made, said)
	}
	assert.Contains(t, made.stderr, "waiting for the Driver Toolkit container")
	t.Logf("compiled in %.0f s", made.took.Seconds())
	set := strings.TrimSpace(made.stdout)

	r := command{args: []string{program(t), "--progress", "plain", "--os", "debian12", "--driver", "470.256.02", "--base", base(t, "debian12", "amd64"), "--kernel", release,
		"--compression", "zstd", "--matrix", filepath.Join(root, "matrix.yaml"), "--lock", "none", "--builder", "chroot", "--output", "oci:" + filepath.Join(dir, "packages")}}.want(t, 0)
	first, _, _ := strings.Cut(strings.TrimSpace(r.stdout), "\n")
	ref, digest, _ := strings.Cut(first, "@")
	packages := image{dir: filepath.Join(dir, "packages"), tag: ref[strings.LastIndex(ref, ":")+1:], digest: digest}
	compared := 0
	for path, sum := range packages.contents(t, "modules proprietary "+release) {
		if strings.HasSuffix(path, ".ko") {
			ours, _, err := kbuild.Digest(filepath.Join(driver, set, filepath.Base(path)))
			require.NoError(t, err)
			assert.Equalf(t, sum, ours, "%s", path)
			compared++
		}
	}
	if compared < 3 {
		t.Errorf("%d modules were compared", compared)
	}
	for _, flag := range []string{"dir_prepared", "driver_build_started", "driver_built"} {
		_, err := os.Stat(filepath.Join(shared, flag))
		assert.NoErrorf(t, err, "%s", flag)
	}

	// Another container of the pod finds the modules in the folder.
	require.NoError(t, os.RemoveAll(filepath.Join(driver, "var/lib/nvidia-driver")))
	assert.Contains(t, compile.want(t, 0).stderr, "modules found that the Driver Toolkit container compiled before")

	// A kernel that the toolkit is not for.
	other := sharing(shared, driver, "ocp_dtk_entrypoint", "compile", "--kernel", "6.1.0-1-amd64", "--fetch-headers=false").want(t, 11)
	assert.Contains(t, other.stderr, "the toolkit is for kernel "+release+", the node runs 6.1.0-1-amd64")
}
