package lab

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"

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

// ImageDisk makes a disk of an image in an OCI layout, or takes it from the cache. tag may be empty if the
// layout has one image only.
func ImageDisk(t testing.TB, dir, tag string) Image {
	t.Helper()
	const refName = "org.opencontainers.image.ref.name"
	index := require.Value(layout.ImageIndexFromPath(dir))(t)
	found := slices.DeleteFunc(require.Value(index.IndexManifest())(t).Manifests, func(d v1.Descriptor) bool {
		return tag != "" && d.Annotations[refName] != tag
	})
	if len(found) != 1 || found[0].Annotations[refName] == "" { // umoci unpacks by name only
		t.Fatalf("%s has %d images named %q: name one of them", dir, len(found), tag)
	}
	tag = found[0].Annotations[refName]
	config := require.Value(require.Value(index.Image(found[0].Digest))(t).ConfigFile())(t).Config
	image := Image{Env: config.Env, Command: slices.Concat(config.Entrypoint, config.Cmd)}
	image.Disk = cached(t, "images/"+found[0].Digest.Hex+".erofs", func(path string) {
		bundle := path + ".d"
		require.NoError(t, os.RemoveAll(bundle))
		tool.Must(t, "umoci", "unpack", "--image", dir+":"+tag, bundle)
		makeErofs(t, filepath.Join(bundle, "rootfs"), path)
		require.NoError(t, os.RemoveAll(bundle)) // after a failure the next attempt removes it
	})
	require.NoError(t, tool.Prune(filepath.Join(CacheDir(t), "images/*.erofs"), keepImages, 3*time.Hour))
	return image
}

// TreeDisk makes a disk of a folder, for Config.Disks. The disk is removed at the end of the test.
func TreeDisk(t testing.TB, dir string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tree.erofs")
	makeErofs(t, dir, path)
	return path
}

// makeErofs does not compress: an emulated processor takes longer to decompress data than to read it.
func makeErofs(t testing.TB, dir, path string) {
	t.Helper()
	tool.Must(t, "mkfs.erofs", "--quiet", path, dir)
}

// lowerdir returns the folders of an image's files, as in an overlay's option.
func (i Image) lowerdir(name string) string {
	if i.layers != "" {
		return i.layers
	}
	return imageDir(name)
}

func imageDir(name string) string { return "/lab/images/" + name }
