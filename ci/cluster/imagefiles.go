package cluster

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/driver-container/driver-container/ci/require"
)

// file is a regular file of an image.
type file struct {
	data []byte
	mode int64
}

// layoutImage returns the first image of an OCI layout.
func layoutImage(t testing.TB, dir string) v1.Image {
	t.Helper()
	index := require.Value(require.Value(layout.FromPath(dir))(t).ImageIndex())(t)
	return require.Value(index.Image(require.Value(index.IndexManifest())(t).Manifests[0].Digest))(t)
}

// walk calls visit for each regular file of an image, with its path without a slash in front.
func walk(t testing.TB, image v1.Image, visit func(name string, r io.Reader)) {
	t.Helper()
	all := mutate.Extract(image)
	defer all.Close()
	for r := tar.NewReader(all); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		require.NoError(t, err)
		if h.Typeflag == tar.TypeReg {
			visit(strings.TrimPrefix(h.Name, "./"), r)
		}
	}
}

// appendFiles returns an image with one more layer, of files by their paths.
func appendFiles(t testing.TB, image v1.Image, files map[string]file) v1.Image {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		f := files[name]
		require.NoError(t, w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: f.mode, Size: int64(len(f.data)), Format: tar.FormatPAX}))
		require.Value(w.Write(f.data))(t)
	}
	require.NoError(t, w.Close())
	return require.Value(mutate.AppendLayers(image, static.NewLayer(b.Bytes(), types.OCIUncompressedLayer)))(t)
}

// pushPulled pushes an image to the registry under "NAME:TAG", lets the node pull it, and returns its name on
// the node.
func (c *Cluster) pushPulled(ref string, image v1.Image) string {
	c.t.Helper()
	c.registry.push(c.t, ref, image)
	c.pull(ref)
	return guestRegistry + "/" + ref
}
