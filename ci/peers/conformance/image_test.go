package conformance

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/tool"
)

// driver is the version in the image that the tests use: Debian's newest LTS driver.
const system, driver = "debian12", "535.261.03"

// unpacked returns the root of that image, which driver-build makes from real packages and umoci unpacks.
// Tests must not change it: they copy it with tree.
func unpacked(t *testing.T) string {
	t.Helper()
	dir, err := theImage()
	require.NoErrorf(t, err, "make the image of %s for %s", driver, system)
	return dir
}

var theImage = sync.OnceValues(func() (string, error) {
	ctx := context.Background() // all tests use this image, so no test's context; each command ends by itself
	repo, err := tool.Project()
	if err != nil {
		return "", err
	}
	folder, err := cacheDir()
	if err != nil {
		return "", err
	}
	layout := filepath.Join(folder, "image-layout")
	line, err := tool.Run(ctx, repo, nil, "ci/image", "--os", system, "--driver", driver, "--progress", "plain", "--compression", "gzip", // umoci 0.4 reads no zstd
		"--output", "oci:"+layout)
	if err != nil {
		return "", err
	}
	_, digest, _ := strings.Cut(strings.TrimSpace(line), "@sha256:")
	dir := filepath.Join(folder, "image-"+digest)
	err = tool.Once(dir, func(partial string) error {
		_, err := tool.Run(ctx, repo, nil, "umoci", "raw", "unpack", "--image", layout+":"+driver+"-"+system, partial)
		return err
	})
	return dir, errors.Join(err, tool.Prune(filepath.Join(folder, "image-[0-9a-f]*"), 1, 0))
})

// tree returns a copy of the image's root in which a test may add and remove files. It consists of hard
// links: do not write to the contents of files. It looks as the entrypoint serves it by a link, beside device
// nodes on the host: no dev, no sys, folders for sockets.
func tree(t *testing.T, from string) string {
	t.Helper()
	// Beside the original, because hard links do not cross file systems.
	to, err := os.MkdirTemp(filepath.Dir(from), "tree-*") //nolint:usetesting // see above
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(to)) })
	require.NoError(t, os.Chmod(to, 0o755))
	require.NoError(t, filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, path)
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

// container returns the image's root as a privileged container sees it: with /proc, this process's /dev and,
// when sys is true, /sys.
func container(t *testing.T, image string, sys bool) string {
	t.Helper()
	root := tree(t, image)
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
