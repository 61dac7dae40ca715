package bundle

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/oci"
)

// Complete says what of the inputs of builds or of a mirror is not in the file, before anything of
// it is written.
func (b *Bundle) Complete(kind ItemKind) error {
	all, _ := b.graph.files(kind)
	if kind == Inputs {
		all = append(all, b.buildInputs()...)
	} else if len(all) == 0 {
		return fault(RuleMissing, "", "it has no kernel headers; bundle create --headers takes them along")
	}
	for _, d := range all {
		if _, err := b.open(d); err != nil {
			return err
		}
	}
	return nil
}

// buildInputs returns what a build reads from its cache: downloads, and base images with their
// documents.
func (b *Bundle) buildInputs() []v1.Descriptor {
	_, all := b.graph.files(Inputs)
	for _, p := range b.graph.parts {
		if p.Kind != Base {
			continue
		}
		for _, d := range p.Documents {
			all = append(all, d.Desc)
		}
		for _, blob := range p.Blobs {
			all = append(all, blob.Desc)
		}
	}
	return all
}

// Adopt puts the downloads of all inputs, and all base images, into a cache, each under its digest.
// The bundle was checked.
func (b *Bundle) Adopt(ctx context.Context, store *fetch.Store) error {
	for _, d := range b.buildInputs() {
		err := b.adopt(ctx, store, d)
		if err != nil {
			return fmt.Errorf("put %s into the cache: %w", d.Digest, err)
		}
	}
	return nil
}

func (b *Bundle) adopt(ctx context.Context, store *fetch.Store, d v1.Descriptor) error {
	f := fetch.File{
		URL:    "bundle:" + d.Digest.String(),
		SHA256: d.Digest.Hex,
		SHA512: d.Annotations[sha512Annotation],
		Size:   d.Size,
	}
	if store.Has(f.SHA256) && (f.SHA512 == "" || store.Has(f.SHA512)) {
		return nil
	}
	r, err := b.open(d)
	if err != nil {
		return err
	}
	defer r.Close()
	return store.Adopt(ctx, f, r)
}

// heads are files that a client of a repository reads first: they come when everything that they
// lead to is there.
var heads = []string{
	"InRelease",
	"Release",
	"Release.gpg",
	"repomd.xml",
	"repomd.xml.asc",
	"repomd.xml.key",
}

// Extract writes the files of a kind, except downloads, into a folder that exists, each under its
// title. A file appears whole, no link in the folder leads out of it, and a mirror that nodes read
// meanwhile stays usable. The bundle was checked.
func (b *Bundle) Extract(ctx context.Context, kind ItemKind, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	all, _ := b.graph.files(kind)
	slices.SortStableFunc(all, func(x, y v1.Descriptor) int { return readFirst(x) - readFirst(y) })
	for _, d := range all {
		err := b.extract(ctx, root, d)
		if err != nil {
			return fmt.Errorf("write %s in %s: %w", d.Annotations[TitleAnnotation], dir, err)
		}
	}
	return nil
}

// readFirst is 1 for a file that a client of a repository reads before others, which has to be
// written after them.
func readFirst(d v1.Descriptor) int {
	if slices.Contains(heads, path.Base(d.Annotations[TitleAnnotation])) {
		return 1
	}
	return 0
}

func (b *Bundle) extract(ctx context.Context, root *os.Root, d v1.Descriptor) error {
	name := d.Annotations[TitleAnnotation]
	err := root.MkdirAll(path.Dir(name), 0o755)
	if err != nil {
		return err
	}
	mode := os.FileMode(0o644)
	if d.Annotations[executableAnnotation] == "true" {
		mode = 0o755 // as at the origin
	}
	temporary := path.Join(path.Dir(name), ".part-"+d.Digest.Hex[:16])
	f, err := root.OpenFile(temporary, os.O_RDWR|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	content := oci.Blob{Desc: d, Open: func() (io.ReadCloser, error) { return b.open(d) }}
	err = errors.Join(content.Copy(ctx, f, nil), f.Sync(), f.Close())
	if err == nil {
		err = root.Rename(temporary, name)
	}
	if err != nil {
		return errors.Join(err, root.Remove(temporary))
	}
	return nil
}
