package layer

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/progress"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/rootfs"
)

// zeros is a layer of one byte that never ends when it is unpacked.
type zeros struct{ v1.Layer }

func (zeros) Size() (int64, error)                 { return 1, nil }
func (zeros) Digest() (v1.Hash, error)             { return v1.Hash{}, nil }
func (zeros) DiffID() (v1.Hash, error)             { return v1.Hash{}, nil }
func (zeros) Uncompressed() (io.ReadCloser, error) { return io.NopCloser(zeros{}), nil }
func (zeros) Read(p []byte) (int, error)           { clear(p); return len(p), nil }

func TestOutlineIsBounded(t *testing.T) {
	t.Parallel()
	cache := Cache{Store: require.Value(fetch.OpenStore(t.TempDir()))(t)}
	assert.ErrorIs(t, assert.Err(cache.makeOutline(t.Context(), zeros{}, progress.Quiet(), "")), rootfs.ErrTooLarge)
}

// TestOutlineWhileWriting: the outline that is made while a layer is written is that of the finished layer,
// and a layer that fails leaves none.
func TestOutlineWhileWriting(t *testing.T) {
	t.Parallel()
	store := require.Value(fetch.OpenStore(t.TempDir()))(t)
	cache := Cache{Store: store}
	step := progress.Quiet()
	spool := require.Value(rootfs.NewSpool(store.Dir()))(t)
	defer func() { require.NoError(t, spool.Close()) }()
	tree := rootfs.New(spool, nil)
	for n := range 200 {
		require.NoError(t, tree.AddBytes(fmt.Sprintf("usr/lib/%d", n), 0o644, bytes.Repeat([]byte{byte(n)}, n*1000)))
	}
	of := Spec{Name: "driver", Key: strings.Repeat("a", 64), Compression: recipe.Gzip, Time: time.Unix(1, 0)}
	made := require.Value(cache.Write(t.Context(), of, tree, step))(t)
	key := outlineKey(require.Value(made.Digest())(t))
	found, ok := cache.Get(key)
	assert.Equal(t, true, ok)
	read := require.Value(cache.makeOutline(t.Context(), made, step, ""))(t)
	assert.Equal(t, require.Value(found.Digest())(t), require.Value(read.Digest())(t))

	before := len(require.Value(filepath.Glob(filepath.Join(store.Dir(), "keys", "*")))(t))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	assert.ErrorIs(t, assert.Err(cache.Write(ctx, of, tree, step)), context.Canceled)
	assert.Equal(t, before, len(require.Value(filepath.Glob(filepath.Join(store.Dir(), "keys", "*")))(t)))
}

// readLayer is a layer that counts how often it is read, and lacks some bytes at its end.
type readLayer struct {
	v1.Layer
	reads *int
	lacks int64
}

func (l readLayer) Uncompressed() (io.ReadCloser, error) {
	*l.reads++
	r, err := l.Layer.Uncompressed()
	if err != nil || l.lacks == 0 {
		return r, err
	}
	data, err := io.ReadAll(r)
	return io.NopCloser(io.MultiReader(bytes.NewReader(data[:int64(len(data))-l.lacks]), iotest.ErrReader(io.ErrUnexpectedEOF))), errors.Join(err, r.Close())
}

// TestOutlineIsKept: a layer is read once for its outline, which has the records of the cache, and none if the layer could
// not be read to its end.
func TestOutlineIsKept(t *testing.T) {
	t.Parallel()
	var content bytes.Buffer
	w := tar.NewWriter(&content)
	require.NoError(t, w.WriteHeader(&tar.Header{Name: "etc/os-release", Mode: 0o644, Size: 5, Typeflag: tar.TypeReg}))
	_ = require.Value(w.Write([]byte("ID=x\n")))(t)
	require.NoError(t, w.Close())
	plain := static.NewLayer(content.Bytes(), types.OCIUncompressedLayer)
	other := Cache{Store: require.Value(fetch.OpenStore(t.TempDir()))(t)}
	want := require.Value(other.OutlineOf(t.Context(), plain, progress.Quiet()))(t)
	for name, test := range map[string]struct {
		lacks int64
		cache Cache
		kind  string
		reads int
	}{
		"signed":     {0, Cache{}, verifiedRecord, 1},
		"unverified": {0, Cache{Finder: NewFinder(t.Context(), FinderOptions{})}, unverifiedRecord, 1},
		"damaged":    {1, Cache{}, verifiedRecord, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cache, reads := test.cache, 0
			cache.Store = require.Value(fetch.OpenStore(t.TempDir()))(t)
			for range 2 {
				_, err := cache.Outline(t.Context(), []v1.Layer{readLayer{plain, &reads, test.lacks}}, progress.Quiet())
				assert.Equal(t, test.lacks != 0, errors.Is(err, io.ErrUnexpectedEOF))
			}
			assert.Equal(t, test.reads, reads)
			records := require.Value(filepath.Glob(filepath.Join(cache.Store.Dir(), "keys", test.kind+"-*.json")))(t)
			if test.lacks != 0 {
				assert.Equal(t, 0, len(records))
				return
			}
			assert.Equal(t, 1, len(records))
			key := outlineKey(require.Value(plain.Digest())(t))
			kept, ok := cache.Get(key)
			assert.Equal(t, true, ok)
			assert.Equal(t, require.Value(want.Digest())(t), require.Value(kept.Digest())(t))
		})
	}
}
