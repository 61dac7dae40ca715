package layer

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/require"
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
	assert.ErrorIs(t, assert.Err(cache.makeOutline(t.Context(), nil, zeros{}, nil, noStep, "")), rootfs.ErrTooLarge)
}

// TestOutlineWhileWriting: the outline that is made while a layer is written is that of the finished layer,
// and a layer that fails leaves none.
func TestOutlineWhileWriting(t *testing.T) {
	t.Parallel()
	store := require.Value(fetch.OpenStore(t.TempDir()))(t)
	cache := Cache{Store: store}
	step := progress.Observer(nil).Begin("", "")
	spool := require.Value(rootfs.NewSpool(store.Dir()))(t)
	defer func() { require.NoError(t, spool.Close()) }()
	tree := rootfs.New(spool, nil)
	for n := range 200 {
		require.NoError(t, tree.AddBytes(fmt.Sprintf("usr/lib/%d", n), 0o644, bytes.Repeat([]byte{byte(n)}, n*1000)))
	}
	of := Spec{Name: "driver", Key: strings.Repeat("a", 64), Compression: recipe.Gzip, Time: time.Unix(1, 0)}
	made := require.Value(cache.Write(t.Context(), of, tree, step))(t)
	key := require.Value(OutlineKey(require.Value(made.Digest())(t)))(t)
	found, ok := cache.Get(key)
	assert.Equal(t, true, ok)
	read := require.Value(cache.makeOutline(t.Context(), nil, made, nil, step, ""))(t)
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

// TestOutlineWhileReading: Flatten leaves the outline that a read of the layer gives, with the records
// of the cache, and none of a layer that could not be read to its end.
func TestOutlineWhileReading(t *testing.T) {
	t.Parallel()
	var content bytes.Buffer
	w := tar.NewWriter(&content)
	require.NoError(t, w.WriteHeader(&tar.Header{Name: "etc/os-release", Mode: 0o644, Size: 5, Typeflag: tar.TypeReg}))
	_ = require.Value(w.Write([]byte("ID=x\n")))(t)
	require.NoError(t, w.Close())
	plain := static.NewLayer(content.Bytes(), types.OCIUncompressedLayer)
	other := Cache{Store: require.Value(fetch.OpenStore(t.TempDir()))(t)}
	want := require.Value(other.OutlineOf(t.Context(), plain, noStep))(t)
	for name, test := range map[string]struct {
		lacks int64
		cache Cache
		kind  string
		reads int // by Flatten twice and Outline
	}{
		"signed":     {0, Cache{}, verifiedRecord, 2},
		"unverified": {0, Cache{Unverified: true}, unverifiedRecord, 2},
		"damaged":    {1, Cache{}, verifiedRecord, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cache, reads := test.cache, 0
			cache.Store = require.Value(fetch.OpenStore(t.TempDir()))(t)
			step := progress.Observer(nil).Begin("", "")
			spool := require.Value(rootfs.NewSpool(cache.Store.Dir()))(t)
			defer func() { require.NoError(t, spool.Close()) }()
			img := require.Value(mutate.AppendLayers(empty.Image, plain))(t)
			img = readImage{img, readLayer{plain, &reads, test.lacks}}
			for range 2 {
				_, err := cache.Flatten(t.Context(), img, spool, nil, step)
				assert.Equal(t, test.lacks != 0, errors.Is(err, io.ErrUnexpectedEOF))
			}
			_, err := cache.Outline(t.Context(), require.Value(img.Layers())(t), spool, step)
			assert.Equal(t, test.lacks != 0, errors.Is(err, io.ErrUnexpectedEOF))
			assert.Equal(t, test.reads, reads)
			records := require.Value(filepath.Glob(filepath.Join(cache.Store.Dir(), "keys", test.kind+"-*.json")))(t)
			if test.lacks != 0 {
				assert.Equal(t, 0, len(records))
				return
			}
			assert.Equal(t, 1, len(records))
			key := require.Value(OutlineKey(require.Value(plain.Digest())(t)))(t)
			kept, ok := cache.Get(key)
			assert.Equal(t, true, ok)
			assert.Equal(t, require.Value(want.Digest())(t), require.Value(kept.Digest())(t))
		})
	}
}

// readImage is an image with one layer.
type readImage struct {
	v1.Image
	layer v1.Layer
}

func (i readImage) Layers() ([]v1.Layer, error) { return []v1.Layer{i.layer}, nil }

// TestOutlinesAreKept: an outline is read once, and what was not needed for long is dropped.
func TestOutlinesAreKept(t *testing.T) {
	t.Parallel()
	all, reads := new(Outlines), 0
	get := func(name int) {
		_ = require.Value(all.get(v1.Hash{Hex: strconv.Itoa(name)}, func() (*rootfs.Members, error) { reads++; return new(rootfs.Members), nil }))(t)
	}
	for n := range outlinesKept {
		get(n)
	}
	get(0)
	get(outlinesKept)
	assert.Equal(t, outlinesKept+1, reads)
	get(0)
	assert.Equal(t, outlinesKept+1, reads)
	get(1)
	assert.Equal(t, outlinesKept+2, reads)
	assert.Equal(t, outlinesKept, len(all.kept))
}
