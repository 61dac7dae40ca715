package layername

import (
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/require"
)

func TestNames(t *testing.T) {
	t.Parallel()
	img := empty.Image
	var layers []v1.Layer
	for _, by := range []string{"/bin/sh -c #(nop) ADD file", "driver-build v0.3.0: packages", "another-build v1: x"} {
		l := require.Value(random.Layer(100, types.OCILayer))(t)
		layers = append(layers, l)
		img = require.Value(mutate.Append(img, mutate.Addendum{Layer: l, History: v1.History{CreatedBy: by}}))(t)
	}
	names := Of(img)
	for i, want := range []string{"layer 1 of 3", "packages", "layer 3 of 3"} {
		assert.Equal(t, want, names[require.Value(layers[i].Digest())(t)])
	}
	assert.Equal(t, "config", names[require.Value(img.ConfigName())(t)])
	img = require.Value(mutate.ConfigFile(img, &v1.ConfigFile{Architecture: "arm64", RootFS: require.Value(img.ConfigFile())(t).RootFS}))(t)
	assert.Equalf(t, "layer 2 of 3 arm64", WithArch(img)[require.Value(layers[1].Digest())(t)], "without a history")
}
