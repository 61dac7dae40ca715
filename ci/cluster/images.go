package cluster

import (
	"archive/tar"
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/driver-container/driver-container/ci/testkit/cache"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/tool"
)

// The driver versions of which the node has images. Both are for its kernel, with closed modules.
const (
	Older = "470.256.02"
	Newer = "535.261.03"
)

const (
	driverSystem = "debian12"
	// HolderImage is the image of program holder (folder holder), which opens the files in its arguments and
	// sleeps.
	HolderImage = guestRegistry + "/holder:1"
	driverName  = "driver"
)

// pulled is an image that is on the node from the beginning.
type pulled struct {
	ref    string // "NAME:TAG" in the registry
	image  v1.Image
	digest string
}

// images makes the images that the node needs: the drivers, holder, pause. The registry serves them.
func images(t testing.TB, b base, r *registry) []pulled {
	t.Helper()
	var list []pulled
	add := func(ref string, image v1.Image) {
		digest := require.Value(image.Digest())(t)
		r.push(t, ref, image)
		list = append(list, pulled{ref, image, digest.String()})
	}
	program := goProgram(t, "holder")
	add("pause:1", oneFile(t, "holder", program))
	add("holder:1", oneFile(t, "holder", program))
	for _, driver := range []string{Older, Newer} {
		dir, image := driverLayout(t, b, driver)
		r.layout(dir)
		add(driverName+":"+driverTag(b, driver), image)
	}
	return list
}

// driverTag returns the tag that driver-build gives the image with modules for the guest's kernel.
func driverTag(b base, driver string) string { return driver + "-" + b.release + "-" + driverSystem }

// driverLayout returns the image that driver-build of bin or DRIVER_E2E_BIN makes, rebuilt when one of the
// programs has changed.
func driverLayout(t testing.TB, b base, driver string) (string, v1.Image) {
	t.Helper()
	root := filepath.Join(sourceDir(t), "../..")
	bin := os.Getenv("DRIVER_E2E_BIN") // as in the real tier of ci/e2e
	if bin == "" {
		bin = filepath.Join(root, "bin")
	}
	program := filepath.Join(bin, "driver-build")
	programs := require.Value(filepath.Glob(filepath.Join(bin, "driver-*-linux-amd64")))(t)
	if _, err := os.Stat(program); err != nil || len(programs) == 0 {
		t.Fatalf("there are no programs in %s: run make build (%v)", bin, err)
	}
	key := require.Value(cache.Key([]string{b.release, driver}, append(programs, program, filepath.Join(root, "matrix.yaml"), sourceDir(t)+"/images.go")...))(t)
	dir := cached(t, "driver-"+driver, key, func(dir string) {
		from := tool.Must(t, filepath.Join(root, "ci/base"), driverSystem)
		tool.Must(t, program, "--os", driverSystem, "--driver", driver, "--kernel", b.release, "--builder", "chroot", "--base", from,
			// On an emulated node unpacking images takes long: the image has only what serving needs, and a
			// compression that is fast to unpack.
			"--profile", "compute", "--flavour", "proprietary", "--compression", "zstd",
			"--matrix", filepath.Join(root, "matrix.yaml"), "--output", "oci:"+dir, "--progress", "plain")
	})
	l := require.Value(layout.FromPath(dir))(t)
	index := require.Value(l.ImageIndex())(t)
	manifest := require.Value(index.IndexManifest())(t)
	image, err := index.Image(manifest.Manifests[0].Digest) // all tags refer to the same image
	require.NoError(t, err)
	return dir, image
}

// oneFile makes an image of one static program, which the image runs.
func oneFile(t testing.TB, name, path string) v1.Image {
	t.Helper()
	data := require.Value(os.ReadFile(path))(t)
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	require.NoError(t, w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o755, Size: int64(len(data)), Format: tar.FormatUSTAR}))
	require.Value(w.Write(data))(t)
	require.NoError(t, w.Close())
	image, err := mutate.AppendLayers(mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON),
		static.NewLayer(b.Bytes(), types.OCIUncompressedLayer))
	require.NoError(t, err)
	config := require.Value(image.ConfigFile())(t)
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Config.Entrypoint = "linux", "amd64", []string{"/" + name}
	image = require.Value(mutate.ConfigFile(image, config))(t)
	return image
}

func itoa(n int) string { return strconv.Itoa(n) }
