package images

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/rootfs"
)

// layerRecord is what the cache knows of a layer: cache/layers/<key>.json names the blob that these inputs gave.
type layerRecord struct {
	Digest    v1.Hash         `json:"digest"`
	DiffID    v1.Hash         `json:"diffID"`
	Size      int64           `json:"size"`
	MediaType types.MediaType `json:"mediaType"`
}

// storedLayer is a v1 layer whose compressed bytes are in the store.
type storedLayer struct {
	layerRecord
	store *fetch.Store
}

func (l *storedLayer) Digest() (v1.Hash, error)            { return l.layerRecord.Digest, nil }
func (l *storedLayer) DiffID() (v1.Hash, error)            { return l.layerRecord.DiffID, nil }
func (l *storedLayer) Size() (int64, error)                { return l.layerRecord.Size, nil }
func (l *storedLayer) MediaType() (types.MediaType, error) { return l.layerRecord.MediaType, nil }
func (l *storedLayer) Compressed() (io.ReadCloser, error) {
	return l.store.Open(l.layerRecord.Digest.Hex)
}
func (l *storedLayer) Uncompressed() (io.ReadCloser, error) {
	full, err := partial.CompressedToLayer(l)
	if err != nil {
		return nil, err
	}
	return full.Uncompressed()
}

// layerCache finds finished layers by the digest of their inputs.
type layerCache struct{ store *fetch.Store }

func (c layerCache) file(key string) string {
	return filepath.Join(c.store.Dir(), "layers", key+".json")
}

// get returns the layer of a key when record and blob are both there. A record that cannot be read counts as missing.
func (c layerCache) get(key string) (v1.Layer, bool) {
	b, err := os.ReadFile(c.file(key))
	if err != nil {
		return nil, false
	}
	var rec layerRecord
	if json.Unmarshal(b, &rec) != nil || !c.store.Has(rec.Digest.Hex) {
		return nil, false
	}
	return &storedLayer{rec, c.store}, true
}

func (c layerCache) put(key string, rec layerRecord) error {
	b, err := json.Marshal(rec)
	if err != nil {
		return err
	}
	return writeFile(c.file(key), b)
}

// writeLayer compresses a tree into the store. Tar, both digests and the compressor run at the same time.
func writeLayer(ctx context.Context, store *fetch.Store, tree *rootfs.Tree, c Compression, mtime time.Time, step *Step) (rec layerRecord, err error) {
	blob, err := store.Create()
	if err != nil {
		return rec, err
	}
	defer func() { err = errors.Join(err, blob.Close()) }()
	z, err := c.writer(blob, runtime.GOMAXPROCS(0))
	if err != nil {
		return rec, err
	}
	diff := sha256.New()
	count := &meter{ctx: ctx, step: step, item: "compress", total: tree.Bytes()}
	out := bufio.NewWriterSize(io.MultiWriter(count, diff, z), 1<<20)
	if err := tree.WriteTar(ctx, out, mtime); err != nil {
		return rec, errors.Join(err, z.Close())
	}
	if err := errors.Join(out.Flush(), z.Close()); err != nil {
		return rec, fmt.Errorf("compress the layer: %w", err)
	}
	sum, size, err := blob.Commit()
	if err != nil {
		return rec, err
	}
	return layerRecord{
		Digest:    v1.Hash{Algorithm: "sha256", Hex: sum},
		DiffID:    v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(diff.Sum(nil))},
		Size:      size,
		MediaType: c.mediaType(),
	}, nil
}

// writeFile replaces a file as a whole: temporary name, fsync, rename.
func writeFile(path string, data []byte) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".tmp-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	if _, err := f.Write(data); err != nil {
		return errors.Join(err, f.Close())
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
