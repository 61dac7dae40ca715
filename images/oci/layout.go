package oci

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/sync/errgroup"

	"github.com/driver-container/driver-container/distros/bounded"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/oci/blobstat"
	"github.com/driver-container/driver-container/images/outfile"
)

// layoutVersion is the content of the file oci-layout.
const layoutVersion = `{"imageLayoutVersion":"1.0.0"}`

// layoutJobs is how many blobs are written in parallel: hashing uses one core, and a disk is faster with
// several writers.
const layoutJobs = 4

// WriteLayout writes an artifact into the OCI layout in dir, under the name tag (annotation
// org.opencontainers.image.ref.name). It creates a missing layout. It keeps intact blobs that exist, replaces
// an entry of the same name, and keeps all other entries. Writers of one layout wait for each other. The
// index is replaced last and as a whole, so that the layout is complete at any moment. After an error, or
// when ctx ends, no partial file is left. Attachments become entries without a name; one with a tag extends
// that of the layout.
func WriteLayout(ctx context.Context, dir, tag string, t Artifact, attachments ...Attachment) error {
	return writeKnown(ctx, nil, dir, tag, t, attachments)
}

// writeKnown is WriteLayout with a record of the blobs that were written to the layout.
func writeKnown(ctx context.Context, known *blobstat.Layouts, dir, tag string, t Artifact, attachments []Attachment) error {
	all, err := Collect(t)
	if err == nil {
		err = writeLayout(ctx, known, dir, tag, all, attachments)
	}
	if err != nil {
		return fmt.Errorf("write OCI layout %s: %w", dir, err)
	}
	return nil
}

// AttachLayout adds attachments to an OCI layout, as [WriteLayout] does.
func AttachLayout(ctx context.Context, dir string, attachments ...Attachment) error {
	if err := writeLayout(ctx, nil, dir, "", &Content{}, attachments); err != nil {
		return fmt.Errorf("write OCI layout %s: %w", dir, err)
	}
	return nil
}

// writeLayout writes no artifact if the content is empty.
func writeLayout(ctx context.Context, layouts *blobstat.Layouts, dir, tag string, all *Content, attachments []Attachment) (err error) {
	store := filepath.Join(dir, "blobs", "sha256")
	if err := os.MkdirAll(store, 0o755); err != nil {
		return outfile.DiskFull(dir, err)
	}
	unlock, err := outfile.LockFolder(ctx, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	index, err := readIndex(dir)
	if err != nil {
		return err
	}
	if len(all.Documents) > 0 {
		entry, err := all.entry()
		if err != nil {
			return err
		}
		index = withEntry(index, entry, tag)
	}
	if index, attachments, err = withAttachments(index, layoutBlobs(dir), attachments); err != nil {
		return err
	}
	all = all.with(attachments)
	outfile.Sweep(store, ".")
	if err := writeBlobs(ctx, layouts, store, all); err != nil {
		return err
	}
	if err := replaceText(filepath.Join(dir, "oci-layout"), []byte(layoutVersion)); err != nil {
		return err
	}
	raw, err := json.Marshal(index)
	if err != nil {
		return err
	}
	return replaceText(filepath.Join(dir, "index.json"), raw)
}

// writeBlobs writes what the index is going to name, manifests too: all of it is on the disk before
// the index.
func writeBlobs(ctx context.Context, layouts *blobstat.Layouts, store string, all *Content) error {
	jobs, jctx := errgroup.WithContext(ctx)
	jobs.SetLimit(layoutJobs)
	for _, b := range all.Blobs {
		jobs.Go(func() error { return layoutBlob(jctx, layouts, store, b) })
	}
	for _, d := range all.Documents {
		jobs.Go(func() error { return layoutBlob(jctx, layouts, store, d.blob()) })
	}
	if err := jobs.Wait(); err != nil {
		return err
	}
	if err := layouts.Of(store).SaveSometimes(); err != nil {
		return fmt.Errorf("note the blobs of the layout in the cache: %w", err)
	}
	return nil
}

// replaceText writes a small file, unless it has that text.
func replaceText(path string, text []byte) error {
	if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() && info.Size() == int64(len(text)) {
		if have, err := bounded.File(path, info.Size()); err == nil && bytes.Equal(have, text) {
			return nil
		}
	}
	return outfile.Replace(path, func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
}

// blob returns a document as a blob.
func (d Document) blob() Blob {
	return Blob{Desc: d.Desc, Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(d.Raw)), nil }}
}

// readIndex reads the index of a layout, or starts a new one. It refuses a layout of another version, to not
// damage it.
func readIndex(dir string) (*v1.IndexManifest, error) {
	index := &v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex}
	raw, err := bounded.File(filepath.Join(dir, "index.json"), MaxManifest)
	if errors.Is(err, fs.ErrNotExist) {
		return index, nil
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(raw, index); err != nil {
		return nil, fmt.Errorf("its index.json is malformed: %w; remove the folder to begin a new layout", err)
	}
	if index.SchemaVersion != 2 {
		err = fmt.Errorf("its index.json has schema version %d, want 2; write to another folder", index.SchemaVersion)
	}
	return index, err
}

// withEntry adds an entry. Entries are sorted by name, so that the index does not depend on the order of
// builds.
func withEntry(index *v1.IndexManifest, d v1.Descriptor, tag string) *v1.IndexManifest {
	out := index.DeepCopy()
	out.Manifests = slices.DeleteFunc(out.Manifests, func(e v1.Descriptor) bool {
		name, ok := e.Annotations[refNameAnnotation]
		return ok && name == tag || !ok && tag == "" && e.Digest == d.Digest
	})
	if tag != "" {
		d.Annotations = map[string]string{refNameAnnotation: tag}
	}
	out.Manifests = append(out.Manifests, d)
	slices.SortStableFunc(out.Manifests, func(a, b v1.Descriptor) int {
		return bytes.Compare([]byte(a.Annotations[refNameAnnotation]), []byte(b.Annotations[refNameAnnotation]))
	})
	return out
}

// layoutBlob writes a blob unless an intact copy exists. One that is known is not read.
func layoutBlob(ctx context.Context, layouts *blobstat.Layouts, dir string, b Blob) error {
	path, known := filepath.Join(dir, b.Desc.Digest.Hex), layouts.Of(dir)
	if known.Has(b.Desc.Digest.Hex, b.Desc.Size) {
		return nil
	}
	if !intact(ctx, path, b.Desc) {
		if err := outfile.ReplaceSwept(path, func(w io.Writer) error { return b.copy(ctx, layouts, w) }); err != nil {
			return err
		}
	}
	known.Add(b.Desc.Digest.Hex)
	return nil
}

// intact reports whether a file has the content of the descriptor.
func intact(ctx context.Context, path string, d v1.Descriptor) bool {
	f, err := bounded.Open(path) // layouts of Bazel hold links
	if err != nil {
		return false
	}
	if fi, err := f.Stat(); err != nil || fi.Size() != d.Size {
		f.Close()
		return false
	}
	v := Verify(f, d, path)
	err = fetch.Copy(ctx, io.Discard, v, nil)
	return errors.Join(err, v.Close()) == nil
}

// copy writes a blob to w. It returns an error if the blob does not match its descriptor. A file that is
// known to match is not hashed.
func (b Blob) copy(ctx context.Context, known *blobstat.Layouts, w io.Writer) (err error) {
	r, err := b.Open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	verified := func(w io.Writer) error { return fetch.Copy(ctx, w, Verify(r, b.Desc, "blob"), nil) }
	if f, ok := r.(*os.File); ok && filepath.Base(f.Name()) == b.Desc.Digest.Hex {
		return known.Copy(ctx, w, f, b.Desc.Size, verified)
	}
	return verified(w)
}
