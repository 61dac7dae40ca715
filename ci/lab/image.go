package lab

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/cache"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/tool"
)

// Image is a container image as a disk.
type Image struct {
	Disk    string   // erofs
	Digest  string   // digest of its manifest: "sha256:..."
	Env     []string // from its configuration
	Command []string // Entrypoint and Cmd
	layers  string   // on the guest's disk, see Unpack
}

const keepImages = 8

// descriptor is the entry of a blob in an OCI index or manifest.
type descriptor struct {
	Digest      string
	Annotations map[string]string
	Platform    struct{ Architecture string }
}

// ImageDisk makes a disk of an image in an OCI layout, or takes it from the cache. tag may be empty if the
// layout has one image only.
func ImageDisk(t testing.TB, layout, tag string) Image {
	t.Helper()
	const refName = "org.opencontainers.image.ref.name"
	var index struct{ Manifests []descriptor }
	readJSON(t, filepath.Join(layout, "index.json"), &index)
	var found []descriptor
	for _, m := range index.Manifests {
		if tag == "" || m.Annotations[refName] == tag {
			found = append(found, m)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%s has %d images named %q, of %d: name one of them", layout, len(found), tag, len(index.Manifests))
	}
	if tag = found[0].Annotations[refName]; tag == "" {
		t.Fatalf("%s: its image has no name, and umoci unpacks by name only", layout)
	}
	image := Image{Digest: found[0].Digest}
	var manifest struct{ Config descriptor }
	readJSON(t, blob(layout, image.Digest), &manifest)
	var config struct {
		Config struct{ Env, Entrypoint, Cmd []string }
	}
	readJSON(t, blob(layout, manifest.Config.Digest), &config)
	image.Env = config.Config.Env
	image.Command = append(append([]string{}, config.Config.Entrypoint...), config.Config.Cmd...)
	_, hash, _ := strings.Cut(image.Digest, ":")
	image.Disk = cached(t, "images/"+hash+".erofs", func(path string) {
		bundle := path + ".d"
		require.NoError(t, os.RemoveAll(bundle))
		tool.Must(t, "umoci", "unpack", "--image", layout+":"+tag, bundle)
		makeErofs(t, filepath.Join(bundle, "rootfs"), path)
		require.NoError(t, os.RemoveAll(bundle)) // after a failure the next attempt removes it
	})
	require.NoError(t, cache.Prune(filepath.Join(CacheDir(t), "images/*.erofs"), keepImages, 3*time.Hour))
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

func blob(layout, digest string) string {
	algorithm, hash, _ := strings.Cut(digest, ":")
	return filepath.Join(layout, "blobs", algorithm, hash)
}

func readJSON(t testing.TB, path string, v any) {
	t.Helper()
	text := require.Value(os.ReadFile(path))(t)
	require.NoErrorf(t, json.Unmarshal(text, v), "%s", path)
}
