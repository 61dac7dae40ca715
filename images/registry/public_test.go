package registry

import (
	"errors"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/images/oci"
)

// TestCheck: by the name of the registry, in every spelling that leads there.
func TestCheckPublic(t *testing.T) {
	t.Parallel()
	for repository, refused := range map[string]bool{
		"docker.io/me/driver": true, "me/driver": true, "index.docker.io/me/driver": true, "ghcr.io/me/driver": true, "quay.io/me/driver:1": true,
		"GHCR.io/me/driver": true, "quay.io:443/me/driver": true, "public.ecr.aws/a1/driver": true, "registry.gitlab.com/me/driver": true,
		"docker.io/me/driver@sha256:0000000000000000000000000000000000000000000000000000000000000000": true,
		"registry.example.com/gpu/driver": false, "123456789012.dkr.ecr.eu-west-1.amazonaws.com/driver": false,
		"europe-docker.pkg.dev/p/r/driver": false, "site.azurecr.io/driver": false, "localhost:5000/driver": false, "": false,
		"ghcr.io.example.com/driver": false, "example.com/ghcr.io/driver": false,
	} {
		err := CheckPublic("driver 550.144.06-debian12", "azure", repository)
		assert.Equalf(t, refused, failure.KindOf(err) == failure.Usage, "%q: %v", repository, err)
		assert.NoErrorf(t, CheckPublic("x", "", repository), "%q, a driver of whole GPUs", repository)
	}
	err := CheckPublic("driver 550.144.06-debian12", "azure", "ghcr.io/me/driver")
	assert.ErrorContains(t, err, "driver 550.144.06-debian12", "licence: azure", "ghcr.io/me/driver", "vGPU EULA", "--allow-public-registry")
}

func image(t *testing.T, labels, annotations map[string]string) v1.Image {
	t.Helper()
	img := require.Value(mutate.Config(empty.Image, v1.Config{Labels: labels}))(t)
	annotated, ok := mutate.Annotations(img, annotations).(v1.Image)
	if !ok {
		t.Fatal("no image")
	}
	return annotated
}

// TestCheckArtifact: the licence is found in annotations and labels, of images and of an index, and a private
// registry asks nothing.
func TestCheckPublicArtifact(t *testing.T) {
	t.Parallel()
	guest := map[string]string{driverinfo.VGPULabel: "aws"}
	annotatedIndex, ok := mutate.Annotations(empty.Index, guest).(v1.ImageIndex)
	assert.Equal(t, true, ok)
	labelled, annotated, whole := image(t, guest, nil), image(t, nil, guest), image(t, nil, nil)
	layout := "oci:" + t.TempDir()
	require.NoError(t, oci.WriteLayout(t.Context(), strings.TrimPrefix(layout, "oci:"), "x", labelled))
	for name, a := range map[string]oci.Artifact{
		"a label": labelled, "a label in a layout": require.Value(artifact(t, client(t), layout))(t), "an annotation": annotated,
		"an index with one":         mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: whole}, mutate.IndexAddendum{Add: labelled}),
		"an annotation of an index": annotatedIndex,
	} {
		err := CheckPublicArtifact("x", "ghcr.io/me/driver:1", func() (oci.Artifact, error) { return a, nil })
		assert.ErrorContainsf(t, err, "licence: aws", "%s", name)
		raw := require.Value(a.RawManifest())(t)
		if err := CheckPublicDocument("ghcr.io/me/driver:1", raw); (err == nil) != (strings.HasPrefix(name, "a label") || name == "an index with one") {
			t.Errorf("%s as a document: %v", name, err)
		}
	}
	for name, a := range map[string]oci.Artifact{"an image": whole, "an index": mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: whole})} {
		assert.NoErrorf(t, CheckPublicArtifact("x", "ghcr.io/me/driver:1", func() (oci.Artifact, error) { return a, nil }), "%s of whole GPUs", name)
	}
	gone := errors.New("gone")
	assert.ErrorIs(t, CheckPublicArtifact("x", "ghcr.io/me/driver:1", func() (oci.Artifact, error) { return nil, gone }), gone)
	assert.NoError(t, CheckPublicArtifact("x", "registry.example.com/driver:1", func() (oci.Artifact, error) { return nil, gone }))
	assert.NoError(t, CheckPublicDocument("ghcr.io/me/driver:1", []byte("{")))
}
