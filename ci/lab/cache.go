package lab

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/tool"
)

// tools are the programs that the lab starts, with the Debian package of each.
var tools = []struct{ name, from string }{
	{"qemu-system-x86_64", "qemu-system-x86"},
	{"busybox", "busybox-static"},
	{"debugfs", "e2fsprogs"},
	{"mke2fs", "e2fsprogs"},
	{"mkfs.erofs", "erofs-utils"},
	{"dpkg-deb", "dpkg"},
	{"mkfs.vfat", "dosfstools"},
	{"mcopy", "mtools"},
}

// Gate skips a test unless DRIVER_E2E=1 asks for the real tier; then anything that is missing is a
// failure.
func Gate(t testing.TB) {
	t.Helper()
	tool.Real(t, "the lab needs root, QEMU, the network for a kernel, and minutes")
	if os.Getuid() != 0 {
		t.Fatal("the lab needs root: it unpacks images with their owners and device nodes")
	}
	for _, program := range tools {
		tool.Program(t, program.name, program.from)
	}
}

// CacheDir returns the folder of kernels and disks: DRIVER_LAB_DIR, or a folder in the user's
// cache.
func CacheDir(t testing.TB) string {
	t.Helper()
	return require.Value(tool.CacheDir("lab", "DRIVER_LAB_DIR"))(t)
}

// cached returns the path of an entry of the cache; see tool.Once.
func cached(t testing.TB, name string, build func(path string)) string {
	t.Helper()
	path := filepath.Join(CacheDir(t), name)
	require.NoError(t, tool.Once(path, func(partial string) error { build(partial); return nil }))
	return path
}

// sourceDir returns this package's folder.
func sourceDir(t testing.TB) string {
	t.Helper()
	return filepath.Join(require.Value(tool.Project())(t), "ci/lab")
}
