package conformance

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/ci/testkit/ocitest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/tool"
)

// driver is the version in the images that the tests use: Debian's newest LTS driver.
const system, driver = "debian12", "535.261.03"

// image is one that driver-build makes from real packages, and its root. Tests must not change the root: they copy it
// with tree.
type image struct {
	v1.Image
	root string
}

// kinds are the images, with the flags of driver-build for each.
var kinds = map[string][]string{"full": nil, "thin": {"--kernel", "latest", "--builder", "chroot"}}

// made has the images that were made; tests run one after the other.
var made = map[string]image{}

// unpacked returns the image of a kind.
func unpacked(t *testing.T, kind string) image {
	t.Helper()
	if i, ok := made[kind]; ok {
		return i
	}
	repo, folder := require.Value(tool.Project())(t), cacheDir(t)
	dir := filepath.Join(folder, "layout-"+kind)
	args := []string{"ci/image", "--os", system, "--driver", driver, "--progress", "plain", "--output", "oci:" + dir}
	require.Value(tool.Run(t.Context(), repo, nil, append(args, kinds[kind]...)...))(t)
	i := image{Image: ocitest.Open(t, dir)}
	i.root = filepath.Join(folder, "image-"+kind+"-"+require.Value(i.Digest())(t).Hex)
	require.NoError(t, tool.Once(i.root, func(partial string) error { ocitest.Unpack(t, i, partial); return nil }))
	require.NoError(t, tool.Prune(filepath.Join(folder, "image-"+kind+"-*")))
	made[kind] = i
	return i
}

// tree returns a copy of an image's root in which a test may add and remove files. It consists of hard
// links: do not write to the contents of files. It looks as the entrypoint serves it by a link, beside device
// nodes on the host: no dev, no sys, folders for sockets.
func (i image) tree(t *testing.T) string {
	t.Helper()
	// Beside the original, because hard links do not cross file systems.
	to, err := os.MkdirTemp(filepath.Dir(i.root), "tree-*") //nolint:usetesting // see above
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(to)) })
	require.NoError(t, os.Chmod(to, 0o755))
	require.NoError(t, filepath.WalkDir(i.root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(i.root, path)
		if err != nil || name == "." {
			return err
		}
		if name == "dev" || name == "sys" {
			return fs.SkipDir
		}
		if d.IsDir() {
			return os.Mkdir(filepath.Join(to, name), 0o755)
		}
		return os.Link(path, filepath.Join(to, name))
	}))
	for _, dir := range []string{"run/nvidia-persistenced", "run/nvidia-fabricmanager", "run/nvidia-topologyd"} {
		require.NoError(t, os.MkdirAll(filepath.Join(to, dir), 0o755))
	}
	return to
}

// container returns an image's root as a privileged container sees it: with /proc, this process's /dev and,
// when sys is true, /sys.
func (i image) container(t *testing.T, sys bool) string {
	t.Helper()
	root := i.tree(t)
	for _, dir := range []string{"dev", "sys"} {
		require.NoError(t, os.Mkdir(filepath.Join(root, dir), 0o755))
	}
	dirs := []string{"proc", "dev", "sys"}
	if !sys {
		dirs = dirs[:2]
	}
	for _, dir := range dirs {
		path := filepath.Join(root, dir)
		require.NoError(t, unix.Mount("/"+dir, path, "", unix.MS_BIND, ""))
		t.Cleanup(func() { require.NoError(t, unix.Unmount(path, 0)) })
	}
	return root
}
