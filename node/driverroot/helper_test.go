package driverroot

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/logtest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
)

const (
	testVersion = "535.261.03"
	testID      = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	namespaced  = "DRIVERROOT_TEST_NAMESPACE"
)

// TestMain starts the tests again in a mount namespace of their own, in the same process: their mounts are
// not visible outside.
func TestMain(m *testing.M) {
	if os.Getuid() == 0 && os.Getenv(namespaced) == "" {
		runtime.LockOSThread()
		must(unix.Unshare(unix.CLONE_NEWNS))
		must(unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
		must(unix.Exec("/proc/self/exe", os.Args, append(os.Environ(), namespaced+"=1")))
	}
	os.Exit(m.Run())
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// sharedRun is a fake /run/nvidia, a shared tmpfs, whose mounts are removed at the end.
func sharedRun(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, unix.Mount("run", dir, "tmpfs", 0, ""))
	require.NoError(t, unix.Mount("", dir, "", unix.MS_SHARED, ""))
	t.Cleanup(func() {
		for unix.Unmount(dir, unix.MNT_DETACH) == nil {
			continue
		}
	})
	return dir
}

// image makes the root of a small driver image in dir, in driver-build's layout for Debian 12.
func image(t *testing.T, dir string) string {
	t.Helper()
	const lib = "usr/lib/x86_64-linux-gnu/"
	for _, d := range []string{"proc", "sys/bus/pci/devices", "dev/pts", "run/lock", "tmp", "var/tmp", "var/cache/apt", "usr/lib/gcc/12", "usr/share/doc/x", "usr/share/man/man1"} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, d), 0o755))
	}
	testfile.Write(t, dir+"/lib", "-> usr/lib")
	testfile.Write(t, dir+"/sbin", "-> usr/sbin")
	testfile.Write(t, dir+"/bin", "-> usr/bin")
	for _, name := range []string{"libnvidia-ml.so", "libcuda.so"} {
		testfile.Write(t, dir+"/"+lib+name+"."+testVersion, "\x7fELF "+name)
		testfile.Write(t, dir+"/"+lib+name+".1", "-> "+name+"."+testVersion)
	}
	testfile.WriteMode(t, dir+"/usr/bin/nvidia-smi", "\x7fELF smi", 0o755)
	testfile.WriteMode(t, dir+"/usr/bin/kmod", "\x7fELF kmod", 0o755)
	testfile.Write(t, dir+"/usr/sbin/modprobe", "-> /bin/kmod")
	testfile.WriteMode(t, dir+"/usr/sbin/ldconfig", "\x7fELF ldconfig", 0o755)
	testfile.Write(t, dir+"/etc/ld.so.cache", "cache")
	testfile.Write(t, dir+"/etc/hosts", "image's own")
	testfile.Write(t, dir+"/usr/src/nvidia-"+testVersion+"/kernel/Kbuild", "obj-m")
	testfile.Write(t, dir+"/"+firmwareDir+"/"+testVersion+"/gsp_ga10x.bin", "firmware")
	testfile.Write(t, dir+"/usr/lib/firmware/nvidia/"+testVersion, "-> ../../../share/nvidia-driver/firmware/nvidia/"+testVersion)
	testfile.WriteMode(t, dir+"/usr/lib/gcc/12/cc1", "compiler", 0o755)
	testfile.Write(t, dir+"/usr/share/doc/x/copyright", "text")
	testfile.Write(t, dir+"/tmp/left", "over")
	return dir
}

// testRoot is a Root over a fake image with private folders.
func testRoot(t *testing.T) *Root {
	t.Helper()
	dir := t.TempDir()
	return &Root{Target: filepath.Join(sharedRun(t), "driver"), Image: image(t, filepath.Join(dir, "image")), Storage: filepath.Join(dir, "storage"),
		ID: testID, Version: testVersion, Release: release, Log: logtest.New(t)}
}

func mounted(t *testing.T, r *Root) {
	t.Helper()
	require.NoError(t, r.Mount(t.Context(), require.Value(r.Stage(t.Context(), nil))(t)))
}

// staged returns the folder of a root that is staged; "" without storage.
func staged(t *testing.T, r *Root) string {
	t.Helper()
	if r.Storage == "" {
		return ""
	}
	return require.Value(r.folder(r.Version, r.ID))(t)
}

// stageLog stages a root, and returns its folder and the log.
func stageLog(t *testing.T, r *Root) (dir, text string) {
	t.Helper()
	var log logtest.Log
	r.Log = log.Logger()
	dir = require.Value(r.Stage(t.Context(), nil))(t)
	return dir, log.String()
}

// reused stages a root, and says whether it was there already.
func reused(t *testing.T, r *Root) bool {
	t.Helper()
	_, log := stageLog(t, r)
	return !strings.Contains(log, logtest.Staged)
}

// adoptable checks whether a root can be adopted, or why not.
func adoptable(t *testing.T, r *Root, whyNot string) {
	t.Helper()
	dir, err := r.Adopt(t.Context())
	if whyNot != "" {
		assert.ErrorContains(t, err, whyNot)
		return
	}
	assert.NoError(t, err)
	assert.Equal(t, staged(t, r), dir)
}

func points(t *testing.T, r *Root) []string {
	t.Helper()
	mounts := require.Value(r.mounts())(t)
	var found []string
	for _, m := range mounts {
		rel := require.Value(filepath.Rel(r.Target, m.Point))(t)
		found = append(found, rel)
	}
	return found
}
