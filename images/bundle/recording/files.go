package recording

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/bundle"
	"github.com/driver-container/driver-container/images/bundle/inputs"
	"github.com/driver-container/driver-container/images/bundle/reading"
	"github.com/driver-container/driver-container/images/oci"
)

// Files returns the files of a mirror in its folder.
func Files(ctx context.Context, dir string) (all []oci.Blob, err error) {
	err = filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := inputs.FromFile(ctx, name)
		if err != nil {
			return err
		}
		title, err := filepath.Rel(dir, name)
		b.Desc.Annotations = map[string]string{bundle.TitleAnnotation: filepath.ToSlash(title)}
		all = append(all, b)
		return err
	})
	return all, err
}

// heads are files that a client of a repository reads first: they come when everything that they lead to is
// there.
var heads = []string{"InRelease", "Release", "Release.gpg", "repomd.xml", "repomd.xml.asc", "repomd.xml.key"}

// Extract writes the mirror that a bundle has into a folder that exists. A file appears whole, no link in the
// folder leads out of it, and a mirror that nodes read meanwhile stays usable. The bundle was verified.
func Extract(ctx context.Context, b *reading.Bundle, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	all := b.List.Files(b.Documents, bundle.Headers)
	for _, last := range []bool{false, true} {
		for _, d := range all {
			name := d.Annotations[bundle.TitleAnnotation]
			if slices.Contains(heads, path.Base(name)) != last {
				continue
			}
			if err := write(ctx, root, name, b, d); err != nil {
				return fmt.Errorf("write %s in %s: %w", name, dir, err)
			}
		}
	}
	return nil
}

func write(ctx context.Context, root *os.Root, name string, b *reading.Bundle, d v1.Descriptor) (err error) {
	if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	r, err := inputs.Open(b, d.Digest)
	if err != nil {
		return err
	}
	v := oci.Verify(r, d, "the bundle")
	defer func() { err = errors.Join(err, v.Close()) }()
	temporary := path.Join(path.Dir(name), ".part-"+d.Digest.Hex[:16])
	f, err := root.Create(temporary)
	if err != nil {
		return err
	}
	if err := errors.Join(fetch.Copy(ctx, f, v, nil), f.Sync(), f.Close()); err != nil {
		return errors.Join(err, root.Remove(temporary))
	}
	return root.Rename(temporary, name)
}
