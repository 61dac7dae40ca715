package lab

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/ci/require"
)

// tools are the programs that the lab starts, with the Debian package of each.
var tools = []struct{ name, from string }{
	{"qemu-system-x86_64", "qemu-system-x86"}, {"busybox", "busybox-static"}, {"depmod", "kmod"}, {"mke2fs", "e2fsprogs"},
	{"mkfs.erofs", "erofs-utils"}, {"umoci", "umoci"}, {"dpkg-deb", "dpkg"},
	{"mkfs.vfat", "dosfstools"}, {"mcopy", "mtools"},
}

// Gate skips a test unless DRIVER_E2E=1 asks for the real tier; then anything that is missing is a failure.
func Gate(t testing.TB) {
	t.Helper()
	if os.Getenv("DRIVER_E2E") == "" {
		t.Skip("the lab runs with DRIVER_E2E=1 (make e2e): it needs root, QEMU, the network for a kernel, and minutes")
	}
	if os.Getuid() != 0 {
		t.Fatal("the lab needs root: it unpacks images with their owners and device nodes")
	}
	for _, tool := range tools {
		Need(t, tool.name, tool.from)
	}
}

// Need fails a test if a program is missing, and names its Debian package.
func Need(t testing.TB, program, from string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		t.Fatalf("%s is missing: ci/e2e/setup installs Debian's package %s", program, from)
	}
}

// cacheDir is the folder of kernels and disks: DRIVER_LAB_DIR, or a folder in the user's cache.
func cacheDir(t testing.TB) string {
	t.Helper()
	dir := os.Getenv("DRIVER_LAB_DIR")
	if dir == "" {
		base := require.Value(os.UserCacheDir())(t)
		dir = filepath.Join(base, "driver-build", "lab")
	}
	require.NoError(t, os.MkdirAll(dir, 0o755))
	return dir
}

// cached returns the path of an entry of the cache. If the entry is missing, build makes it under another
// name. Other test processes wait meanwhile.
func cached(t testing.TB, name string, build func(path string)) string {
	t.Helper()
	path := filepath.Join(cacheDir(t), name)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	lock := require.Value(os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o644))(t)
	defer lock.Close()
	require.NoError(t, unix.Flock(int(lock.Fd()), unix.LOCK_EX))
	if _, err := os.Stat(path); err == nil {
		now := time.Now()
		require.NoError(t, os.Chtimes(path, now, now)) // prune reads these times
		return path
	}
	partial := path + ".partial"
	require.NoError(t, os.RemoveAll(partial))
	build(partial)
	require.NoError(t, os.Rename(partial, path))
	return path
}

// prune removes the oldest files of a folder in the cache, except the given number of newest ones and those
// that were used within the last hours.
func prune(t testing.TB, pattern string, keep int) {
	t.Helper()
	const young = 3 * time.Hour
	paths := require.Value(filepath.Glob(filepath.Join(cacheDir(t), pattern)))(t)
	times := map[string]time.Time{}
	for _, p := range paths {
		if st, err := os.Stat(p); err == nil {
			times[p] = st.ModTime()
		}
	}
	for len(times) > keep {
		oldest := ""
		for p, at := range times {
			if oldest == "" || at.Before(times[oldest]) {
				oldest = p
			}
		}
		if time.Since(times[oldest]) > young {
			require.NoError(t, errors.Join(os.RemoveAll(oldest), os.RemoveAll(oldest+".lock")))
		}
		delete(times, oldest)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// tool runs a program of the host; the test fails if the program fails.
func tool(t testing.TB, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), args[0], args[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}
