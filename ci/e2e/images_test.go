package e2e

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/ci/testkit/ocitest"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

func itoa(n int) string { return strconv.Itoa(n) }

// base returns a base image of a Debian release, made from its archive: "oci:DIR".
func base(t *testing.T, system, arch string) string {
	t.Helper()
	lines := strings.Split(sh(t, filepath.Join(repository(t), "ci", "base"), system, arch), "\n")
	return lines[len(lines)-1]
}

// build runs driver-build with these flags, fails the test if driver-build fails, and returns the digest that
// it printed.
func build(t *testing.T, args ...string) string {
	t.Helper()
	return digest(t, command{args: append([]string{program(t), "--progress", "plain"}, args...)}.want(t, 0))
}

// digest returns the digest in the one line that driver-build prints.
func digest(t *testing.T, r result) string {
	t.Helper()
	_, d, ok := strings.Cut(strings.TrimSpace(r.stdout), "@")
	if !ok || !strings.HasPrefix(d, "sha256:") || strings.ContainsAny(d, " \n") {
		t.Fatalf("want one line reference@sha256:...\n%s", r)
	}
	return d
}

// image is an image that journeys share: the layout's folder, its tag and its digest.
type image struct{ dir, tag, digest string }

func (i image) ref() string { return "oci:" + i.dir + ":" + i.tag }

// debian returns the image of a driver from Debian's packages. The first journey that needs it builds it.
func debian(t *testing.T, system, driver string) image {
	t.Helper()
	i := image{dir: filepath.Join(workspace(t), "debian", driver+"-"+system), tag: driver + "-" + system}
	i.digest = build(t, "--os", system, "--driver", driver, "--base", base(t, system, "amd64"),
		"--matrix", filepath.Join(repository(t), "matrix.yaml"), "--output", "oci:"+i.dir)
	return i
}

// open reads the image with go-containerregistry.
func (i image) open(t *testing.T) v1.Image {
	t.Helper()
	return ocitest.Open(t, i.dir)
}

// layer returns the layer of driver-build that has this name in its history.
func (i image) layer(t *testing.T, name string) v1.Layer {
	t.Helper()
	img := i.open(t)
	config := require.Value(img.ConfigFile())(t)
	layers := require.Value(img.Layers())(t)
	for n, h := range config.History {
		if strings.HasSuffix(h.CreatedBy, ": "+name) {
			return layers[n]
		}
	}
	t.Fatalf("%s has no layer %q: %+v", i.ref(), name, config.History)
	return nil
}

// driverTree unpacks the driver's own layers, with tar, into a folder from which archives are generated.
func (i image) driverTree(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(scratch(t), i.tag)
	require.NoError(t, os.Mkdir(dir, 0o755))
	for _, name := range []string{"user-mode driver", "kernel sources"} {
		hash := require.Value(i.layer(t, name).Digest())(t)
		sh(t, "tar", "-xf", filepath.Join(i.dir, "blobs", "sha256", hash.Hex), "-C", dir)
	}
	return dir
}

// unpack unpacks an image and returns its root folder.
func (i image) unpack(t *testing.T) string {
	t.Helper()
	root := filepath.Join(scratch(t), "root")
	ocitest.Unpack(t, i.open(t), root)
	return root
}

// chroot runs a program in an unpacked image, with /proc and /dev as in a container. The mounts end with the
// program.
func chroot(root string, args ...string) command {
	script := `mount -t proc proc "$1/proc" && mount --rbind /dev "$1/dev" && exec chroot "$@"`
	return command{
		args: append([]string{"unshare", "--mount", "sh", "-c", script, "chroot", root}, args...),
		env:  []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C", "DRIVER_VERSION=535.261.03"},
	}
}
