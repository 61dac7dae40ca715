// Package ocitest makes images for tests.
package ocitest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"math/rand/v2"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/driver-container/driver-container/ci/testkit/require"
)

// LayerTar returns a tar with one file of n bytes that do not compress.
func LayerTar(t testing.TB, name string, n int) []byte {
	t.Helper()
	content := make([]byte, n)
	seed := [32]byte{}
	copy(seed[:], name)
	require.Value(rand.NewChaCha8(seed).Read(content))(t)
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	require.NoError(t, w.WriteHeader(&tar.Header{Name: name, Size: int64(n), Mode: 0o644, Typeflag: tar.TypeReg}))
	require.Value(w.Write(content))(t)
	require.NoError(t, w.Close())
	return buf.Bytes()
}

// Gzipped packs bytes.
func Gzipped(t *testing.T, b []byte) []byte {
	t.Helper()
	var buf bytes.Buffer
	w, err := gzip.NewWriterLevel(&buf, gzip.NoCompression) // fast; the content does not compress anyway
	require.NoError(t, err)
	require.Value(w.Write(b))(t)
	require.NoError(t, w.Close())
	return buf.Bytes()
}

// Image returns an image for linux/arch with gzip layers. Other names give other layers.
func Image(t *testing.T, arch string, size int, names ...string) v1.Image {
	t.Helper()
	img := mutate.MediaType(mutate.ConfigMediaType(empty.Image, types.OCIConfigJSON), types.OCIManifestSchema1)
	img = require.Value(mutate.ConfigFile(img, &v1.ConfigFile{OS: "linux", Architecture: arch, RootFS: v1.RootFS{Type: "layers"}}))(t)
	for _, n := range names {
		packed := Gzipped(t, LayerTar(t, n, size))
		l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(packed)), nil },
			tarball.WithMediaType(types.OCILayer))
		require.NoError(t, err)
		if img, err = mutate.AppendLayers(img, l); err != nil {
			t.Fatal(err)
		}
	}
	return img
}

// Index returns an index of images.
func Index(t testing.TB, images ...v1.Image) v1.ImageIndex {
	t.Helper()
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, img := range images {
		cf := require.Value(img.ConfigFile())(t)
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: cf.Platform()}})
	}
	return index
}

// Digest is that of an image, an index or a layer.
func Digest(t *testing.T, a interface{ Digest() (v1.Hash, error) }) v1.Hash {
	t.Helper()
	return require.Value(a.Digest())(t)
}

// SameLayers reads both images whole: the content must be equal.
func SameLayers(t *testing.T, got, want v1.Image) {
	t.Helper()
	a := require.Value(got.Layers())(t)
	b := require.Value(want.Layers())(t)
	if len(a) != len(b) {
		t.Fatalf("%d layers; want %d", len(a), len(b))
	}
	for i := range a {
		if x, y := UnpackedBytes(t, a[i]), UnpackedBytes(t, b[i]); !bytes.Equal(x, y) {
			t.Errorf("layer %d: %d bytes differ from %d wanted", i, len(x), len(y))
		}
	}
}

// UnpackedBytes reads a layer.
func UnpackedBytes(t *testing.T, l v1.Layer) []byte {
	t.Helper()
	r := require.Value(l.Uncompressed())(t)
	defer r.Close()
	return require.Value(io.ReadAll(r))(t)
}

// ZstdLayer is an empty layer of zstd.
func ZstdLayer() v1.Layer {
	return static.NewLayer([]byte{0x28, 0xb5, 0x2f, 0xfd, 0x04, 0x00, 0x01, 0x00, 0x00, 0x99, 0xe9, 0xd8, 0x51}, types.OCILayerZStd)
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

// ErrorAs finds an error of a type, or ends the test.
func ErrorAs[E error](t *testing.T, err error) E {
	t.Helper()
	var e E
	if !errors.As(err, &e) {
		t.Fatalf("error is %T %v; want a %T", err, err, e)
	}
	return e
}
