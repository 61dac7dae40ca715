package supplychain

import (
	"archive/tar"
	"os"
	"path/filepath"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/ocitest"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

const sbomType = "application/spdx+json"

// judges list what refers to an image.
var judges = map[string]func(testing.TB, string) ([]v1.Descriptor, error){"oras": OrasReferrers, "regctl": RegctlReferrers}

// TestLayouts proves the readers of a layout in a tar: they find the image by its tag, and oras its referrer,
// which oras and regctl list in either registry.
func TestLayouts(t *testing.T) {
	judged(t)
	archive := filepath.Join(t.TempDir(), "layout.tar")
	writeArchive(t, archive)
	assert.NoError(t, SkopeoCopy(t, archive, "1", t.TempDir()))
	assert.Errorf(t, SkopeoCopy(t, archive, "2", t.TempDir()), "skopeo: a tag that is not there")
	Registries(t, func(t *testing.T, host string) {
		assert.NoError(t, RegctlImport(t, archive, "1", host+"/regctl/driver:1"))
		assert.NoError(t, OrasCopy(t, "oci:"+archive+":1", host+"/oras/driver:1"))
		assert.Errorf(t, OrasCopy(t, "oci:"+archive+":2", host+"/oras/driver:2"), "oras: a tag that is not there")
		for judge, list := range judges {
			found, err := list(t, host+"/oras/driver:1")
			if err != nil || len(found) != 1 || found[0].ArtifactType != sbomType {
				t.Errorf("%s: %+v, %v; want one of type %s", judge, found, err, sbomType)
			}
			found, err = list(t, host+"/regctl/driver:1")
			if err != nil || len(found) != 0 {
				t.Errorf("%s: an image without referrers: %+v, %v", judge, found, err)
			}
		}
	})
}

// writeArchive writes a layout with an image, tagged 1, and an SBOM that refers to it.
func writeArchive(t *testing.T, file string) {
	t.Helper()
	dir := t.TempDir()
	img := ocitest.Image(t, "amd64", 1000, "layer")
	sbom := mutate.MediaType(mutate.ConfigMediaType(empty.Image, sbomType), types.OCIManifestSchema1)
	sbom = require.Value(mutate.AppendLayers(sbom, static.NewLayer([]byte("{}"), sbomType)))(t)
	subject := require.Value(partial.Descriptor(img))(t)
	path := require.Value(layout.Write(dir, empty.Index))(t)
	require.NoError(t, path.AppendImage(img, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": "1"})))
	require.NoError(t, path.AppendImage(mutate.Subject(sbom, *subject).(v1.Image)))
	f := require.Value(os.Create(file))(t)
	w := tar.NewWriter(f)
	require.NoError(t, w.AddFS(os.DirFS(dir)))
	require.NoError(t, w.Close())
	require.NoError(t, f.Close())
}
