package lab

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/ocitest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/tool"
)

// Image is a container image as a disk.
type Image struct {
	Disk    string   // erofs
	Env     []string // from its configuration
	Command []string // Entrypoint and Cmd
	layers  string   // on the guest's disk, see Guest.Unpack
}

const keepImages = 4

// ImageDisk makes a disk of the image in an OCI layout, or takes it from the cache.
func ImageDisk(t testing.TB, dir string) Image {
	t.Helper()
	img := ocitest.Open(t, dir)
	config := require.Value(img.ConfigFile())(t).Config
	image := Image{Env: config.Env, Command: slices.Concat(config.Entrypoint, config.Cmd)}
	image.Disk = cached(
		t,
		"images/"+require.Value(img.Digest())(t).Hex+".erofs",
		func(path string) {
			root := path + ".d"
			require.NoError(t, os.RemoveAll(root))
			ocitest.Unpack(t, img, root)
			makeErofs(t, root, path)
			require.NoError(t, os.RemoveAll(root)) // after a failure the next attempt removes it
		},
	)
	require.NoError(
		t,
		tool.Prune(filepath.Join(CacheDir(t), "images/*.erofs"), keepImages, 3*time.Hour),
	)
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

// lowerdir returns the folders of an image's files, as in an overlay's option.
func (i Image) lowerdir(name string) string { return cmp.Or(i.layers, imageDir(name)) }

func imageDir(name string) string { return "/lab/images/" + name }
