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
	"golang.org/x/sync/singleflight"

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
func (zeros) DiffID() (v1.Hash, error)             { return v1.Hash{}, nil }
func (zeros) Uncompressed() (io.ReadCloser, error) { return io.NopCloser(zeros{}), nil }
func (zeros) Read(p []byte) (int, error)           { clear(p); return len(p), nil }

func TestOutlineIsBounded(t *testing.T) {
	t.Parallel()
	assert.ErrorIs(t, writeOutline(t.Context(), zeros{}, io.Discard), rootfs.ErrTooLarge)
}

// TestOutlineWhileWriting: the outline that is made while a layer is written is that of the finished layer,
// and a layer that fails leaves none.
func TestOutlineWhileWriting(t *testing.T) {
	t.Parallel()
	store := require.Value(fetch.OpenStore(t.TempDir()))(t)
	cache := Cache{Store: store, Running: new(singleflight.Group)}
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
	var read bytes.Buffer
	require.NoError(t, writeOutline(t.Context(), made, &read))
	content := require.Value(found.Uncompressed())(t)
	assert.Equal(t, read.String(), string(require.Value(io.ReadAll(content))(t)))
	require.NoError(t, content.Close())

	before := len(require.Value(filepath.Glob(filepath.Join(store.Dir(), "layers", "*")))(t))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	assert.ErrorIs(t, assert.Err(cache.Write(ctx, of, tree, step)), context.Canceled)
	assert.Equal(t, before, len(require.Value(filepath.Glob(filepath.Join(store.Dir(), "layers", "*")))(t)))
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

// TestOutlineWhileReading: Flatten leaves the outline that a read of the layer gives, in the folder for
// records of the cache, and none of a layer that could not be read to its end.
func TestOutlineWhileReading(t *testing.T) {
	t.Parallel()
	var content bytes.Buffer
	w := tar.NewWriter(&content)
	require.NoError(t, w.WriteHeader(&tar.Header{Name: "etc/os-release", Mode: 0o644, Size: 5, Typeflag: tar.TypeReg}))
	_ = require.Value(w.Write([]byte("ID=x\n")))(t)
	require.NoError(t, w.Close())
	plain := static.NewLayer(content.Bytes(), types.OCIUncompressedLayer)
	want := &bytes.Buffer{}
	require.NoError(t, writeOutline(t.Context(), plain, want))
	for name, test := range map[string]struct {
		lacks  int64
		cache  Cache
		folder string
		reads  int // by Flatten twice and Outline
	}{
		"signed":      {0, Cache{}, "layers", 2},
		"unverified":  {0, Cache{Unverified: true}, unverifiedRecords, 2},
		"built again": {0, Cache{Records: "work/again"}, "work/again", 2},
		"damaged":     {1, Cache{}, "layers", 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cache, reads := test.cache, 0
			cache.Store, cache.Running = require.Value(fetch.OpenStore(t.TempDir()))(t), new(singleflight.Group)
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
			records := require.Value(filepath.Glob(filepath.Join(cache.Store.Dir(), test.folder, "*.json")))(t)
			if test.lacks != 0 {
				assert.Equal(t, 0, len(records))
				return
			}
			assert.Equal(t, 1, len(records))
			key := require.Value(OutlineKey(require.Value(plain.Digest())(t)))(t)
			kept, ok := cache.Get(key)
			assert.Equal(t, true, ok)
			r := require.Value(kept.Uncompressed())(t)
			assert.Equal(t, want.String(), string(require.Value(io.ReadAll(r))(t)))
			require.NoError(t, r.Close())
		})
	}
}

// readImage is an image with one layer.
type readImage struct {
	v1.Image
	layer v1.Layer
}

func (i readImage) Layers() ([]v1.Layer, error) { return []v1.Layer{i.layer}, nil }

// TestOutlinesAreKept: the outline of a layer is read once, and what was not needed for long is dropped.
func TestOutlinesAreKept(t *testing.T) {
	t.Parallel()
	members := func(n int) *rootfs.Members {
		var layer, outline bytes.Buffer
		w := tar.NewWriter(&layer)
		for i := range n {
			require.NoError(t, w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: strings.Repeat("n", 200) + strconv.Itoa(i), Format: tar.FormatPAX}))
		}
		require.NoError(t, w.Close())
		require.NoError(t, rootfs.Outline(t.Context(), &layer, &outline))
		return require.Value(rootfs.ReadOutline(t.Context(), &outline))(t)
	}
	third := members(1000)
	all := &Outlines{max: 3*third.Bytes() + 1}
	digests := []v1.Hash{{Hex: "a"}, {Hex: "b"}, {Hex: "c"}, {Hex: "d"}}
	for _, d := range digests[:2] {
		all.add(d, third)
	}
	assert.Equal(t, third, all.get(digests[0]))
	for _, d := range digests[2:] {
		all.add(d, third)
	}
	all.add(v1.Hash{Hex: "large"}, members(3500))
	var left []string
	for _, k := range all.kept {
		left = append(left, k.digest.Hex)
	}
	assert.Same(t, []string{"a", "c", "d"}, left)
	var none *Outlines
	none.add(digests[0], third)
	assert.Equal(t, nil, none.get(digests[0]))
}
