package oci

import (
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/imagetest"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

func TestIsAttachmentTag(t *testing.T) {
	h := HashOf(nil)
	for _, tag := range []string{SignatureTag(h), AttestationTag(h), ReferrersTag(h), LayerTagPrefix + h.Hex} {
		assert.Equalf(t, true, IsAttachmentTag(tag), "tag %s", tag)
	}
	for _, tag := range []string{"535.261.03-debian12", "sha256-", "sha256-" + strings.Repeat("g", 64), h.Hex, ReferrersTag(h) + ".sbom", "layer-cake"} {
		assert.Equalf(t, false, IsAttachmentTag(tag), "tag %s", tag)
	}
}

func TestLayerNames(t *testing.T) {
	t.Parallel()
	img := empty.Image
	var layers []v1.Layer
	for _, by := range []string{"/bin/sh -c #(nop) ADD file", "driver-build v0.3.0: packages", "another-build v1: x"} {
		l := require.Value(random.Layer(100, types.OCILayer))(t)
		layers = append(layers, l)
		img = require.Value(mutate.Append(img, mutate.Addendum{Layer: l, History: v1.History{CreatedBy: by}}))(t)
	}
	names := LayerNames(img)
	for i, want := range []string{"layer 1 of 3", "packages", "layer 3 of 3"} {
		assert.Equal(t, want, names[require.Value(layers[i].Digest())(t)])
	}
	assert.Equal(t, "config", names[require.Value(img.ConfigName())(t)])
	img = require.Value(mutate.ConfigFile(img, &v1.ConfigFile{Architecture: "arm64", RootFS: require.Value(img.ConfigFile())(t).RootFS}))(t)
	assert.Equalf(t, "layer 2 of 3 arm64", namesWithArch(img)[require.Value(layers[1].Digest())(t)], "without a history")
}

func FuzzManifest(f *testing.F) {
	f.Add([]byte(`{"schemaVersion":2,"manifests":[{"digest":"sha256:` + strings.Repeat("a", 64) + `","platform":{"os":"linux","architecture":"amd64"}}]}`))
	f.Add([]byte(`{"schemaVersion":2,"config":{"digest":"sha256:` + strings.Repeat("a", 64) + `"},"layers":[]}`))
	f.Fuzz(func(_ *testing.T, b []byte) {
		_, _ = ChooseManifest("x", "amd64", b, func(v1.Descriptor) ([]byte, error) { return b, nil })
		_, _ = ParseManifest(b)
	})
}

// TestNamed: a name means what lies in this folder, except where it names the host of a registry.
func TestNamed(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, dir := range []string{"dist", "sub/dist", "h.example/dist", "localhost/dist"} {
		require.NoError(t, WriteLayout(t.Context(), dir, "x", imagetest.RandomImage(t, "amd64", 10, "x")))
	}
	for text, want := range map[string]string{
		"dist": "oci:dist", "dist:x": "oci:dist:x", "./dist": "oci:./dist", "sub/dist": "oci:sub/dist", "oci:dist": "oci:dist",
		"absent": "absent", "h.example/dist:x": "h.example/dist:x", "localhost/dist": "localhost/dist",
	} {
		assert.Equalf(t, want, Named(text), "%s", text)
	}
}
