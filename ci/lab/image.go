package lab

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/ocitest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/tool"
	"github.com/driver-container/driver-container/images/rehearse/guest"
)

// ImageDisk makes a disk of the image in an OCI layout, or takes it from the cache.
func ImageDisk(t testing.TB, dir string) guest.Image {
	t.Helper()
	folder := filepath.Join(CacheDir(t), "images")
	require.NoError(t, os.MkdirAll(folder, 0o755))
	image := require.Value(guest.ImageDisk(t.Context(), ocitest.Open(t, dir), folder))(t)
	require.NoError(t, tool.Prune(filepath.Join(folder, "[0-9a-f]*")))
	return image
}

// TreeDisk makes a disk of a folder, for Config.Disks. The disk is removed at the end of the test.
func TreeDisk(t testing.TB, dir string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tree.erofs")
	makeErofs(t, dir, path)
	return path
}

// makeErofs does not compress: an emulated processor takes longer to decompress data than to read
// it.
func makeErofs(t testing.TB, dir, path string) {
	t.Helper()
	tool.Must(t, "mkfs.erofs", "--quiet", path, dir)
}
