package oci

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/distros/fetch"
)

const (
	maxEntries = 100_000 // members of an archive; one with 127 layers in the old format has about 400
	maxLinks   = 8       // links that lead to links
)

// archive is a tar file whose members are read in place.
type archive struct {
	path    string
	members map[string]member
}

type member struct {
	offset, size int64
	link         string // the name that the link leads to
}

// openArchive indexes the members of a tar file. Each read of a member opens the file again, so there is
// nothing to close.
func openArchive(name string) (_ *archive, err error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return indexArchive(name, f)
}

func indexArchive(name string, f io.ReadSeeker) (*archive, error) {
	magic := make([]byte, 4)
	if n, err := io.ReadFull(f, magic); err != nil {
		return nil, fmt.Errorf("%s is not a tar archive (%d bytes): %w", name, n, err)
	}
	if bytes.HasPrefix(magic, gzipMagic) || bytes.HasPrefix(magic, zstdMagic) {
		return nil, fmt.Errorf("%s is compressed: unpack it first, for example with gunzip", name)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	a := &archive{path: name, members: map[string]member{}}
	r := tar.NewReader(f)
	for range maxEntries {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return a, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s is not a sound tar archive: %w", name, err)
		}
		at, err := f.Seek(0, io.SeekCurrent) // archive/tar reads no byte beyond the header
		if err != nil {
			return nil, err
		}
		key := path.Clean("/" + h.Name)
		switch h.Typeflag {
		case tar.TypeReg:
			a.members[key] = member{offset: at, size: h.Size}
		// docker save of old versions links shared layers: ID/layer.tar -> ../OTHER/layer.tar.
		case tar.TypeSymlink:
			a.members[key] = member{link: path.Join(path.Dir(key), h.Linkname)} //nolint:gosec // a key of our map, never a path
		case tar.TypeLink:
			a.members[key] = member{link: path.Clean("/" + h.Linkname)}
		}
	}
	return nil, fmt.Errorf("%s has more than %d members", name, maxEntries)
}

func (a *archive) find(name string) (member, error) {
	key := path.Clean("/" + name)
	for range maxLinks {
		m, ok := a.members[key]
		if !ok {
			return m, fmt.Errorf("%s in %s: %w", name, a.path, fs.ErrNotExist)
		}
		if m.link == "" {
			return m, nil
		}
		key = m.link
	}
	return member{}, fmt.Errorf("%s in %s: links that never end", name, a.path)
}

// section is a part of a file; Close closes the file.
type section struct {
	io.Reader
	io.Closer
}

func (a *archive) open(name string) (io.ReadCloser, int64, error) {
	m, err := a.find(name)
	if err != nil {
		return nil, 0, err
	}
	f, err := os.Open(a.path)
	if err != nil {
		return nil, 0, err
	}
	return section{io.NewSectionReader(f, m.offset, m.size), f}, m.size, nil
}

func (a *archive) read(name string, limit int64) (_ []byte, err error) {
	r, size, err := a.open(name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	if size > limit {
		return nil, fmt.Errorf("%s in %s is larger than %d bytes", name, a.path, limit)
	}
	return io.ReadAll(r)
}

// blobs returns the blobs of an OCI archive. The first open of a blob unpacks it into the store and verifies
// it.
func (a *archive) blobs(ctx context.Context, store *fetch.Store) Blobs {
	kept := StoreBlobs(store)
	return Blobs{where: a.path, open: func(d v1.Descriptor) (io.ReadCloser, error) {
		h := d.Digest
		if h.Algorithm == "sha256" && !store.Has(h.Hex) {
			if err := a.unpack(ctx, store, "blobs/sha256/"+h.Hex, h); err != nil {
				return nil, err
			}
		}
		return kept.open(d)
	}}
}

// unpack copies a member into the store. The bytes get a name there only if their digest is want.
func (a *archive) unpack(ctx context.Context, store *fetch.Store, name string, want v1.Hash) (err error) {
	r, size, err := a.open(name)
	if err != nil {
		return err
	}
	v := Verify(r, v1.Descriptor{Digest: want, Size: size}, name+" in "+a.path)
	defer func() { err = errors.Join(err, v.Close()) }()
	w, err := store.Create()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	if err := fetch.Copy(ctx, w, v, nil); err != nil {
		return err
	}
	_, _, err = w.Commit()
	return err
}

// unpackLayers opens each layer once, which copies it into the store.
func unpackLayers(ctx context.Context, img *Image) error {
	for _, d := range img.manifest.Layers {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		r, err := img.blobs.open(d)
		if err != nil {
			return err
		}
		if err := r.Close(); err != nil {
			return err
		}
	}
	return nil
}
