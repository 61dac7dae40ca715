package bundle

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/images/imagename"
)

// Bounds of a bundle. That of the list bounds everything that is on it.
const (
	// bytes of a document, the list and index.json: registries accept manifests of up to 4 MiB
	MaxDocument  = 4 << 20
	maxDocuments = 64 << 20 // bytes of all documents: they are in memory
)

// check says what is wrong with a list, by itself: its names. Its documents and blobs are compared
// with those that its items need.
func (l *List) check() error {
	if len(l.Items) == 0 {
		return errors.New("it has no items")
	}
	left := int64(maxDocuments)
	blobs := map[Blob]bool{}
	for _, d := range l.Documents {
		if left -= d.Size; d.Size < 0 || left < 0 {
			return fmt.Errorf(
				"its documents have more than %d bytes, or one has less than none",
				maxDocuments,
			)
		}
	}
	for _, b := range l.Blobs {
		if blobs[b] || b.Size < 0 {
			return fmt.Errorf(
				"blob %s of %d bytes is on it twice, or has a size that is none",
				b.Digest,
				b.Size,
			)
		}
		blobs[b] = true
	}
	for _, a := range l.Absent {
		if !blobs[a.Blob] || a.Source == "" {
			return fmt.Errorf(
				"%s is absent, but not a blob of this size that another bundle has",
				a.Digest,
			)
		}
	}
	names := map[string]bool{}
	for _, i := range l.Items {
		if err := i.check(names); err != nil {
			return fmt.Errorf("item %s: %w", i.Descriptor.Digest, err)
		}
	}
	return checkRepository(l.Origin)
}

// checkRepository accepts a repository with its registry.
func checkRepository(name string) error {
	if err := imagename.CheckRepository(name); err != nil {
		return err
	}
	if host, _, ok := strings.Cut(name, "/"); !ok ||
		!strings.ContainsAny(host, ".:") && host != "localhost" {
		return fmt.Errorf("%q names no registry: give REGISTRY/PATH", name)
	}
	return nil
}

func (i *Item) check(names map[string]bool) error {
	switch {
	case !slices.Contains(kinds, i.Kind):
		return fmt.Errorf("%q is no kind of item", i.Kind)
	case len(i.Descriptor.URLs) > 0 || len(i.Descriptor.Data) > 0:
		return errors.New("its descriptor has URLs or data")
	}
	if err := checkRepository(i.Repository); err != nil {
		return err
	}
	for _, tag := range i.Tags {
		if err := imagename.CheckTag(tag); err != nil {
			return err
		}
	}
	for _, n := range append(slices.Clone(i.Tags), i.Descriptor.Digest.String()) {
		name := i.Repository + "@" + n
		if names[name] {
			return fmt.Errorf("%s is in it twice", name)
		}
		names[name] = true
	}
	return nil
}
