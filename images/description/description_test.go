package description

import (
	"archive/tar"
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/layer"
	"github.com/driver-container/driver-container/images/recipe"
)

// made is a description with a layer below, and its own layer.
func made(t testing.TB, store *fetch.Store) (driverinfo.Description, v1.Layer) {
	t.Helper()
	info := driverinfo.Description{
		Schema: driverinfo.Schema, Driver: "535.261.03", Branch: "R535", OS: "debian12", Arch: "amd64", Profile: "full",
		Flavours: []string{"open"}, ID: strings.Repeat("0a", 32),
	}
	below := static.NewLayer([]byte("x"), types.OCIUncompressedLayer)
	require.NoError(t, Record(&info, []v1.Layer{below}, &v1.ConfigFile{OS: "linux", Config: v1.Config{User: "root"}}))
	of := layer.Spec{Compression: recipe.Gzip, Time: time.Unix(1, 0)}
	return info, require.Value(Layer(t.Context(), layer.Cache{Store: store}, of, info))(t)
}

func TestRead(t *testing.T) {
	t.Parallel()
	store := require.Value(fetch.OpenStore(t.TempDir()))(t)
	info, l := made(t, store)
	got := require.Value(Read(t.Context(), store, l))(t)
	assert.Same(t, info, got)
	assert.Equal(t, 1, len(got.Layers))
	text := string(require.Value(info.Encode())(t))
	for what, members := range map[string][]tar.Header{
		"another file":    {{Name: "etc/x", Typeflag: tar.TypeReg}, {Name: driverinfo.Path, Typeflag: tar.TypeReg, Mode: 0o644}},
		"another mode":    {{Name: driverinfo.Path, Typeflag: tar.TypeReg, Mode: 0o4755}},
		"a hard link too": {{Name: driverinfo.Path, Typeflag: tar.TypeReg, Mode: 0o644}, {Name: "usr/bin/x", Linkname: driverinfo.Path, Typeflag: tar.TypeLink}},
		"none":            {{Name: "etc/x", Typeflag: tar.TypeReg}},
	} {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		for _, hdr := range members {
			if hdr.Name == driverinfo.Path {
				hdr.Size = int64(len(text))
			}
			require.NoError(t, w.WriteHeader(&hdr))
			if hdr.Size > 0 {
				_ = require.Value(w.Write([]byte(text)))(t)
			}
		}
		require.NoError(t, w.Close())
		err := assert.Err(Read(t.Context(), store, static.NewLayer(b.Bytes(), types.OCIUncompressedLayer)))
		assert.ErrorIsf(t, err, ErrOther, "%s", what)
	}
	large := static.NewLayer(make([]byte, maxLayer+1), types.OCIUncompressedLayer)
	assert.ErrorIs(t, assert.Err(Read(t.Context(), store, large)), ErrOther)
}

// FuzzRead: what is read as a description is the layer that is made of it.
func FuzzRead(f *testing.F) {
	store := require.Value(fetch.OpenStore(f.TempDir()))(f)
	_, l := made(f, store)
	content := require.Value(read(l))(f)
	f.Add(content)
	f.Add(bytes.Replace(content, []byte("root"), []byte("user"), 1))
	f.Add(append(bytes.Clone(content), "more"...))
	f.Fuzz(func(t *testing.T, content []byte) {
		info, err := Read(t.Context(), store, static.NewLayer(content, types.OCIUncompressedLayer))
		if err != nil {
			assert.ErrorIs(t, err, ErrOther)
			return
		}
		text, err := info.Encode()
		if err != nil {
			assert.Equal(t, true, errors.Is(err, driverinfo.ErrFormat))
			return
		}
		assert.Equal(t, true, len(text) <= len(content))
	})
}
