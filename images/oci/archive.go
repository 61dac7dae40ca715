package oci

import (
	"context"
	"errors"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/oci/tarindex"
)

// archive is an OCI archive, or one of `docker save`.
type archive struct{ *tarindex.Archive }

func openArchive(name string) (archive, error) {
	a, err := tarindex.Open(name)
	return archive{a}, err
}

// blobs returns the blobs of an OCI archive. The first open of a blob unpacks it into the store and verifies
// it.
func (a archive) blobs(ctx context.Context, store *fetch.Store) Blobs {
	kept := StoreBlobs(store)
	return Blobs{where: a.Path, open: func(d v1.Descriptor) (io.ReadCloser, error) {
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
func (a archive) unpack(ctx context.Context, store *fetch.Store, name string, want v1.Hash) (err error) {
	r, size, err := a.Member(name)
	if err != nil {
		return err
	}
	v := Verify(r, v1.Descriptor{Digest: want, Size: size}, name+" in "+a.Path)
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
		if err == nil {
			err = r.Close()
		}
		if err != nil {
			return err
		}
	}
	return nil
}
