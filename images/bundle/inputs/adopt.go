package inputs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/bundle"
	"github.com/driver-container/driver-container/images/bundle/reading"
	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/outfile"
)

// Adopt puts the downloads of all inputs, and all base images, into a cache, each under its digest. The
// bundle was verified. It returns how many the cache lacked.
func Adopt(ctx context.Context, b *reading.Bundle, store *fetch.Store) (int, error) {
	added := 0
	for _, d := range wanted(b) {
		f := fetch.File{URL: "bundle:" + d.Digest.String(), SHA256: d.Digest.Hex, SHA512: d.Annotations[bundle.SHA512Annotation], Size: d.Size}
		if store.Has(f.SHA256) && (f.SHA512 == "" || store.Has(f.SHA512)) {
			continue
		}
		r, err := Open(b, d.Digest)
		if err == nil {
			err = errors.Join(store.Adopt(ctx, f, r), r.Close())
		}
		if err != nil {
			return added, fmt.Errorf("put %s into the cache: %w", d.Digest, err)
		}
		added++
	}
	return added, nil
}

// Complete says what of the inputs or of a mirror is not in the bundle, before anything of it is written.
func Complete(b *reading.Bundle, kind bundle.Kind) error {
	all := b.List.Files(b.Documents, kind)
	if kind == bundle.Inputs {
		all = append(all, wanted(b)...)
	} else if len(all) == 0 {
		return fmt.Errorf("%w: it has no kernel headers; bundle create --headers takes them along", bundle.ErrUnsound)
	}
	for _, d := range all {
		if _, err := Open(b, d.Digest); err != nil {
			return fmt.Errorf("%s: %w", d.Digest, err)
		}
	}
	return nil
}

// Open opens a blob or a document of a bundle.
func Open(b *reading.Bundle, h v1.Hash) (io.ReadCloser, error) {
	if raw, ok := b.Documents[h]; ok {
		return oci.BytesBlob("", raw, nil).Open()
	}
	blob, ok := b.Blob(h)
	if !ok {
		return nil, errors.New("it is not in the bundle: take one that was made without --since")
	}
	return blob.Open()
}

// wanted returns what a build reads: downloads, and base images with their documents.
func wanted(b *reading.Bundle) (all []v1.Descriptor) {
	seen := map[v1.Hash]bool{}
	var add func(d v1.Descriptor)
	add = func(d v1.Descriptor) {
		if seen[d.Digest] {
			return
		}
		seen[d.Digest] = true
		all = append(all, d)
		refs, err := bundle.Refer(b.Documents[d.Digest])
		if err != nil {
			return // a blob
		}
		for _, d := range slices.Concat(refs.Documents, refs.Blobs) {
			add(d)
		}
	}
	for _, i := range b.List.Items {
		if i.Kind == bundle.Base {
			add(i.Descriptor)
		}
	}
	for _, d := range b.List.Files(b.Documents, bundle.Inputs) {
		if d.Annotations[bundle.DownloadAnnotation] != "" {
			all = append(all, d)
		}
	}
	return all
}

// Extract writes the files of all inputs, except downloads, into a folder, each under its title, which may
// begin with folders, and returns their paths. The bundle was verified.
func Extract(ctx context.Context, b *reading.Bundle, dir string) (paths []string, err error) {
	for _, d := range b.List.Files(b.Documents, bundle.Inputs) {
		if d.Annotations[bundle.DownloadAnnotation] != "" {
			continue
		}
		path := filepath.Join(dir, filepath.FromSlash(d.Annotations[bundle.TitleAnnotation]))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return paths, fmt.Errorf("write %s: %w", path, err)
		}
		err := outfile.Replace(path, func(w io.Writer) error {
			r, err := Open(b, d.Digest)
			if err != nil {
				return err
			}
			v := oci.Verify(r, d, "the bundle")
			return errors.Join(fetch.Copy(ctx, w, v, nil), v.Close())
		})
		if err == nil && d.Annotations[bundle.ExecutableAnnotation] == "true" {
			err = os.Chmod(path, 0o755) //nolint:gosec // as at the origin
		}
		if err != nil {
			return paths, fmt.Errorf("write %s: %w", path, err)
		}
		paths = append(paths, path)
	}
	return paths, nil
}
