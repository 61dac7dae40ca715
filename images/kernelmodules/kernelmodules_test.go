package kernelmodules

import (
	"archive/tar"
	"bytes"
	"os"
	"path"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/kmod/kbuild"
)

// TestManifests: what a layer says of its sets, without reading their modules; a description that is damaged
// or too large is refused.
func TestManifests(t *testing.T) {
	t.Parallel()
	store := require.Value(fetch.OpenStore(t.TempDir()))(t)
	whole := require.Value(os.ReadFile("testdata/manifest.json"))(t)
	for _, c := range []struct {
		name    string
		content []byte
		bad     bool
	}{
		{kbuild.ManifestName, whole, false}, {kbuild.ManifestName, whole[:len(whole)/2], true},
		{kbuild.ManifestName, make([]byte, maxManifest+1), true}, {"nvidia.ko", []byte("no module"), false},
	} {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		require.NoError(t, w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: path.Join(recipe.ModulesDir, "set", c.name), Size: int64(len(c.content))}))
		_ = require.Value(w.Write(c.content))(t)
		require.NoError(t, w.Close())
		sets, err := Manifests(t.Context(), store, static.NewLayer(b.Bytes(), types.OCIUncompressedLayer))
		assert.Equalf(t, c.bad, err != nil, "%s of %d bytes: %v", c.name, len(c.content), err)
		if err == nil && c.name == kbuild.ManifestName {
			assert.Equal(t, "nvfs-core.c:7:1: error: too few arguments", sets[0].OmittedReason("nvidia-fs"))
		}
	}
}
