package moduleset

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"path"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/require"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/rootfs"
	"github.com/driver-container/driver-container/kmod/kbuild"
)

// packed is a layer of these members, without content.
type packed struct {
	v1.Layer
	data []byte
}

func (packed) DiffID() (v1.Hash, error) { return v1.Hash{}, nil }
func (p packed) Size() (int64, error)   { return int64(len(p.data)), nil }
func (p packed) Uncompressed() (io.ReadCloser, error) {
	return io.NopCloser(bytes.NewReader(p.data)), nil
}

// TestBounds: a layer with modules cannot fill the disk of the machine that checks them.
func TestBounds(t *testing.T) {
	t.Parallel()
	many := make([]tar.Header, maxFiles+1)
	for i := range many {
		many[i].Name = fmt.Sprintf("set/f%d", i)
	}
	for name, headers := range map[string][]tar.Header{"large": {{Name: "set/nvidia.ko", Size: maxModule + 1}}, "many": many} {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		for _, h := range headers {
			h.Typeflag, h.Name = tar.TypeReg, path.Join(recipe.ModulesDir, h.Name)
			require.NoError(t, w.WriteHeader(&h))
		}
		assert.ErrorIsf(t, assert.Err(extract(t.Context(), packed{data: b.Bytes()}, t.TempDir())), rootfs.ErrTooLarge, "%s", name)
	}
}

// TestManifests: what a layer says of its sets, without reading their modules; a description that is damaged
// or too large is refused.
func TestManifests(t *testing.T) {
	t.Parallel()
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
		sets, err := Manifests(t.Context(), packed{data: b.Bytes()})
		assert.Equalf(t, c.bad, err != nil, "%s of %d bytes: %v", c.name, len(c.content), err)
		if err == nil && c.name == kbuild.ManifestName {
			assert.Equal(t, "nvfs-core.c:7:1: error: too few arguments", sets[0].OmittedReason("nvidia-fs"))
		}
	}
}
