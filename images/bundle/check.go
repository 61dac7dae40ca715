package bundle

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/images/imagename"
)

// Bounds of a bundle.
const (
	MaxDocument  = 4 << 20  // bytes of a document, the list and index.json: registries accept manifests of up to 4 MiB
	maxDocuments = 64 << 20 // bytes of all documents: they are in memory
	maxListed    = 100_000  // documents and blobs; a fleet of 500 images has about 5,000
	maxItems     = 100_000
	maxTags      = 1_000 // of an item
	maxText      = 1_024 // bytes of a title, a tool, a source
)

// check says what is wrong with a list, by itself: its bounds and its names. That it fits the documents is
// compared by graph.
func (l *List) check() error {
	switch {
	case len(l.Parts) > 1:
		return fmt.Errorf("it is one of %d parts, which this version does not read: import them with the version that wrote them, or make the bundle again", len(l.Parts))
	case len(l.Tool) > maxText:
		return fmt.Errorf("the name of its tool has more than %d bytes", maxText)
	case len(l.Items) == 0 || len(l.Items) > maxItems:
		return fmt.Errorf("it has %d items, from 1 to %d are allowed", len(l.Items), maxItems)
	case len(l.Documents)+len(l.Blobs) > maxListed:
		return fmt.Errorf("it has %d documents and blobs, at most %d are allowed", len(l.Documents)+len(l.Blobs), maxListed)
	}
	if err := checkRepository(l.Origin); err != nil {
		return err
	}
	if err := checkSizes(l.Documents, MaxDocument, maxDocuments); err != nil {
		return fmt.Errorf("its documents: %w", err)
	}
	if err := checkSizes(l.Blobs, 1<<60, 1<<60); err != nil {
		return fmt.Errorf("its blobs: %w", err)
	}
	names := map[string]bool{}
	for _, i := range l.Items {
		if err := i.check(names); err != nil {
			return fmt.Errorf("item %s: %w", i.Descriptor.Digest, err)
		}
	}
	return l.checkAbsent()
}

// checkSizes bounds the size of each of the blobs, and of all.
func checkSizes(blobs []Blob, most, total int64) error {
	known := make(map[v1.Hash]bool, len(blobs))
	for _, b := range blobs {
		if b.Digest.Hex == "" || known[b.Digest] {
			return fmt.Errorf("%q is no digest, or there twice", b.Digest)
		}
		known[b.Digest] = true
		if b.Size < 0 || b.Size > most {
			return fmt.Errorf("%s: a size of %d bytes is not allowed", b.Digest, b.Size)
		}
		if total -= b.Size; total < 0 {
			return errors.New("they are too large together")
		}
	}
	return nil
}

// checkRepository accepts a repository with its registry.
func checkRepository(name string) error {
	if err := imagename.CheckRepository(name); err != nil {
		return err
	}
	if host, _, ok := strings.Cut(name, "/"); !ok || !strings.ContainsAny(host, ".:") && host != "localhost" {
		return fmt.Errorf("%q names no registry: give REGISTRY/PATH", name)
	}
	return nil
}

func (i *Item) check(names map[string]bool) error {
	switch d := i.Descriptor; {
	case !slices.Contains(kinds, i.Kind):
		return fmt.Errorf("%q is no kind of item", i.Kind)
	case len(i.Title) > maxText || len(i.Tags) > maxTags:
		return errors.New("it has too many tags, or a title that is too long")
	case len(d.URLs) > 0 || len(d.Data) > 0:
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

func (l *List) checkAbsent() error {
	blobs := make(map[Blob]bool, len(l.Blobs))
	for _, b := range l.Blobs {
		blobs[b] = true
	}
	for _, a := range l.Absent {
		if !blobs[a.Blob] || a.Source == "" || len(a.Source) > maxText {
			return fmt.Errorf("%s is absent, but not a blob of this size that another bundle has", a.Digest)
		}
	}
	return nil
}
