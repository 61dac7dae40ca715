package registry

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// NoCredentials is a keychain without credentials: tests must not read those of the user who runs them.
type NoCredentials struct{}

func (NoCredentials) Resolve(authn.Resource) (authn.Authenticator, error) {
	return authn.Anonymous, nil
}

// layerTar returns a tar with one file of n bytes that do not compress.
func layerTar(t testing.TB, name string, n int) []byte {
	t.Helper()
	content := make([]byte, n)
	seed := [32]byte{}
	copy(seed[:], name)
	if _, err := rand.NewChaCha8(seed).Read(content); err != nil {
		t.Fatal(err)
	}
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	if err := w.WriteHeader(&tar.Header{Name: name, Size: int64(n), Mode: 0o644, Typeflag: tar.TypeReg}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func gzipped(t *testing.T, b []byte) []byte {
	t.Helper()
	var buf bytes.Buffer
	w, err := gzip.NewWriterLevel(&buf, gzip.NoCompression) // fast; the content does not compress anyway
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// makeImage returns an image for linux/arch with gzip layers. Other names give other layers.
func makeImage(t *testing.T, arch string, size int, names ...string) v1.Image {
	t.Helper()
	img := mutate.MediaType(mutate.ConfigMediaType(empty.Image, types.OCIConfigJSON), types.OCIManifestSchema1)
	img, err := mutate.ConfigFile(img, &v1.ConfigFile{OS: "linux", Architecture: arch, RootFS: v1.RootFS{Type: "layers"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		packed := gzipped(t, layerTar(t, n, size))
		l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(packed)), nil },
			tarball.WithMediaType(types.OCILayer))
		if err != nil {
			t.Fatal(err)
		}
		if img, err = mutate.AppendLayers(img, l); err != nil {
			t.Fatal(err)
		}
	}
	return img
}

// makeIndex returns an index of images.
func makeIndex(t *testing.T, images ...v1.Image) v1.ImageIndex {
	t.Helper()
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, img := range images {
		cf, err := img.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: platformOf(cf)}})
	}
	return index
}

func digestOf(t *testing.T, a Artifact) v1.Hash {
	t.Helper()
	h, err := a.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// mustPush pushes with a new client.
func mustPush(t *testing.T, ref string, a Artifact, tags ...string) Stats {
	t.Helper()
	got, stats, err := client(t).Push(t.Context(), ref, a, tags...)
	if err != nil {
		t.Fatal(err)
	}
	if want := digestOf(t, a); got != want {
		t.Fatalf("Push = %s; want %s", got, want)
	}
	return stats
}

// sameLayers reads both images whole: the content must be equal.
func sameLayers(t *testing.T, got, want v1.Image) {
	t.Helper()
	a, err := got.Layers()
	if err != nil {
		t.Fatal(err)
	}
	b, err := want.Layers()
	if err != nil {
		t.Fatal(err)
	}
	if len(a) != len(b) {
		t.Fatalf("%d layers; want %d", len(a), len(b))
	}
	for i := range a {
		if x, y := unpackedBytes(t, a[i]), unpackedBytes(t, b[i]); !bytes.Equal(x, y) {
			t.Errorf("layer %d: %d bytes differ from %d wanted", i, len(x), len(y))
		}
	}
}

func unpackedBytes(t *testing.T, l v1.Layer) []byte {
	t.Helper()
	r, err := l.Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func zstdLayer() v1.Layer {
	return static.NewLayer([]byte{0x28, 0xb5, 0x2f, 0xfd, 0x04, 0x00, 0x01, 0x00, 0x00, 0x99, 0xe9, 0xd8, 0x51}, types.OCILayerZStd)
}
