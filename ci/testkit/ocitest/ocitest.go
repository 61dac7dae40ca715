// Package ocitest opens images in OCI layouts and unpacks them as a node does.
package ocitest

import (
	"errors"
	"os"
	"testing"

	"github.com/containerd/containerd/v2/pkg/archive"
	"github.com/containerd/containerd/v2/pkg/archive/compression"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"

	"github.com/driver-container/driver-container/ci/testkit/require"
)

// Open returns the only image of an OCI layout, whatever names it has there.
func Open(t testing.TB, dir string) v1.Image {
	t.Helper()
	index := require.Value(layout.ImageIndexFromPath(dir))(t)
	all := require.Value(index.IndexManifest())(t).Manifests
	for _, d := range all {
		if d.Digest != all[0].Digest {
			t.Fatalf("%s has several images", dir)
		}
	}
	return require.Value(index.Image(all[0].Digest))(t)
}

// Unpack unpacks an image into a folder, which it makes, with containerd's packages.
func Unpack(t testing.TB, img v1.Image, root string) {
	t.Helper()
	require.NoError(t, os.Mkdir(root, 0o755))
	for _, l := range require.Value(img.Layers())(t) {
		packed := require.Value(l.Compressed())(t)
		plain := require.Value(compression.DecompressStream(packed))(t)
		_, err := archive.Apply(t.Context(), root, plain)
		require.NoError(t, errors.Join(err, plain.Close(), packed.Close()))
	}
}
