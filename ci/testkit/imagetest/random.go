package imagetest

import (
	"bytes"
	"io"
	"math/rand/v2"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/driver-container/driver-container/ci/testkit/repotest"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

// RandomTar returns a tar with one file of n bytes that do not compress; they depend on its name.
func RandomTar(t testing.TB, name string, n int) []byte {
	t.Helper()
	content := make([]byte, n)
	seed := [32]byte{}
	copy(seed[:], name)
	require.Value(rand.NewChaCha8(seed).Read(content))(t)
	return repotest.RawTar(t, text(name, string(content)))
}

// RandomImage returns an image for linux/arch with layers of RandomTar. Other names give other
// layers.
func RandomImage(t testing.TB, arch string, size int, names ...string) v1.Image {
	t.Helper()
	var layers [][]byte
	for _, name := range names {
		layers = append(layers, repotest.Compress(t, ".gz", RandomTar(t, name, size)))
	}
	return Image(t, arch, v1.Config{}, layers...)
}

// Index returns an index of images.
func Index(t testing.TB, images ...v1.Image) v1.ImageIndex {
	t.Helper()
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, img := range images {
		cf := require.Value(img.ConfigFile())(t)
		index = mutate.AppendManifests(
			index,
			mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: cf.Platform()}},
		)
	}
	return index
}

// Digest is that of an image, an index or a layer.
func Digest(t testing.TB, a interface{ Digest() (v1.Hash, error) }) v1.Hash {
	t.Helper()
	return require.Value(a.Digest())(t)
}

// SameLayers reads both images whole: the content must be equal.
func SameLayers(t testing.TB, got, want v1.Image) {
	t.Helper()
	a := require.Value(got.Layers())(t)
	b := require.Value(want.Layers())(t)
	if len(a) != len(b) {
		t.Fatalf("%d layers; want %d", len(a), len(b))
	}
	for i := range a {
		if x, y := Unpacked(t, a[i]), Unpacked(t, b[i]); !bytes.Equal(x, y) {
			t.Errorf("layer %d: %d bytes differ from %d wanted", i, len(x), len(y))
		}
	}
}

// Unpacked reads a layer.
func Unpacked(t testing.TB, l v1.Layer) []byte {
	t.Helper()
	r := require.Value(l.Uncompressed())(t)
	defer r.Close()
	return require.Value(io.ReadAll(r))(t)
}

// Damaged is an image whose layers have one wrong byte.
type Damaged struct{ v1.Image }

// LayerByDigest implements v1.Image.
func (d Damaged) LayerByDigest(h v1.Hash) (v1.Layer, error) {
	l, err := d.Image.LayerByDigest(h)
	return damagedLayer{l}, err
}

type damagedLayer struct{ v1.Layer }

func (d damagedLayer) Compressed() (io.ReadCloser, error) {
	r, err := d.Layer.Compressed()
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(r)
	b[len(b)/2] ^= 1
	return io.NopCloser(bytes.NewReader(b)), err
}
