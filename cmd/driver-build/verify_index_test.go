package main

import (
	"os"
	"path/filepath"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

// TestVerifyIndex: verify reads every image of an index, here and in a registry. Content of one that is missing is wrong content.
func TestVerifyIndex(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	dist := u.Path("dist")
	target := []string{"--os", "debian12", "--driver", newDriver, "--arch", "amd64,arm64"}
	u.Run(t, append(target, "--output", "oci:"+dist)...).Want(t, 0)
	u.Run(t, append(target, "--push", "--repository", u.Host+"/team/driver")...).Want(t, 0)
	remote := u.Host + "/team/driver:535.261.03-debian12"
	for _, image := range []string{"oci:" + dist, remote} {
		said := u.Run(t, "verify", image).Want(t, 0).Stdout
		assert.Contains(t, said, "linux/amd64: ")
		assert.Contains(t, said, "linux/arm64: ")
	}
	top := require.Value(layout.ImageIndexFromPath(dist))(t)
	index := require.Value(top.ImageIndex(require.Value(top.IndexManifest())(t).Manifests[0].Digest))(t)
	for _, d := range require.Value(index.IndexManifest())(t).Manifests {
		if d.Platform.Architecture == "arm64" {
			removeLayer(t, dist, require.Value(index.Image(d.Digest))(t))
		}
	}
	u.Run(t, "verify", "oci:"+dist, "--arch", "amd64").Want(t, 0)
	said := u.Run(t, "verify", "oci:"+dist).Want(t, 5).Stdout
	assert.Contains(t, said, "error: layers: linux/arm64: what the manifest names is not there")
}

// removeLayer removes the blob of a layer that lies above those of the base.
func removeLayer(t *testing.T, dir string, img v1.Image) {
	t.Helper()
	layers := require.Value(img.Layers())(t)
	digest := require.Value(layers[2].Digest())(t)
	require.NoError(t, os.Remove(filepath.Join(dir, "blobs/sha256", digest.Hex)))
}
