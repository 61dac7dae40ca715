package bundle

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/images/imagename"
)

// Bounds of a list.
const (
	MaxMembers = 100_000 // documents and blobs; a fleet of 500 images has about 5,000
	maxItems   = 100_000
	maxTags    = 1_000 // of an item
	maxText    = 1_024 // bytes of a title, a tool, a source
)

// check says what is wrong with a list, by itself.
func (l *List) check() error {
	sizes, err := l.digests()
	if err != nil {
		return err
	}
	return errors.Join(l.checkHead(), l.checkAbsent(sizes), l.checkItems(sizes))
}

// digests returns the sizes of all documents and blobs.
func (l *List) digests() (map[v1.Hash]int64, error) {
	if n := len(l.Documents) + len(l.Blobs); n > MaxMembers {
		return nil, fmt.Errorf("it has %d documents and blobs, at most %d are allowed", n, MaxMembers)
	}
	sizes := make(map[v1.Hash]int64, len(l.Documents)+len(l.Blobs))
	var total int64
	for n, b := range slices.Concat(l.Documents, l.Blobs) {
		if err := checkDigest(b.Digest); err != nil {
			return nil, err
		}
		if _, twice := sizes[b.Digest]; twice {
			return nil, fmt.Errorf("%s is in it twice", b.Digest)
		}
		if b.Size < 0 || b.Size > 1<<60 || n < len(l.Documents) && b.Size > MaxDocument {
			return nil, fmt.Errorf("%s: a size of %d bytes is not allowed", b.Digest, b.Size)
		}
		if total += b.Size; total > 1<<60 {
			return nil, errors.New("the sizes of its blobs are too large together")
		}
		sizes[b.Digest] = b.Size
	}
	return sizes, nil
}

func checkDigest(h v1.Hash) error {
	if _, err := v1.NewHash(h.String()); err != nil || h.Algorithm != "sha256" {
		return fmt.Errorf("%q is no sha256 digest", h.String())
	}
	return nil
}

func (l *List) checkHead() error {
	if len(l.Parts) > 1 {
		return fmt.Errorf("it is one of %d parts, which this version does not read: import them with the version that wrote them, or make the bundle again", len(l.Parts))
	}
	if len(l.Tool) > maxText {
		return fmt.Errorf("the name of its tool has more than %d bytes", maxText)
	}
	return checkRepository(l.Origin)
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

func (l *List) checkAbsent(sizes map[v1.Hash]int64) error {
	documents := map[v1.Hash]bool{}
	for _, d := range l.Documents {
		documents[d.Digest] = true
	}
	last := ""
	for _, a := range l.Absent {
		size, known := sizes[a.Digest]
		switch {
		case !known || documents[a.Digest] || size != a.Size:
			return fmt.Errorf("%s is absent, but not a blob of this size", a.Digest)
		case a.Digest.Hex <= last:
			return fmt.Errorf("%s: absent blobs are not in their order", a.Digest)
		case a.Source == "" || len(a.Source) > maxText:
			return fmt.Errorf("%s is absent, but it is not said which bundle has it", a.Digest)
		}
		last = a.Digest.Hex
	}
	return nil
}

func (l *List) checkItems(sizes map[v1.Hash]int64) error {
	if len(l.Items) == 0 || len(l.Items) > maxItems {
		return fmt.Errorf("it has %d items, from 1 to %d are allowed", len(l.Items), maxItems)
	}
	documents := map[v1.Hash]bool{}
	for _, d := range l.Documents {
		documents[d.Digest] = true
	}
	names := map[string]bool{} // repository:tag and repository@digest
	for _, i := range l.Items {
		h := i.Descriptor.Digest
		if size := sizes[h]; !documents[h] || size != i.Descriptor.Size {
			return fmt.Errorf("item %s is no document of this size", h)
		}
		if i.Subject != nil && (!documents[*i.Subject] || *i.Subject == h) {
			return fmt.Errorf("item %s belongs to %s, which is no document", h, i.Subject)
		}
		if err := i.check(names); err != nil {
			return fmt.Errorf("item %s: %w", h, err)
		}
	}
	return nil
}

func (i *Item) check(names map[string]bool) error {
	if !slices.Contains(kinds, i.Kind) {
		return fmt.Errorf("%q is no kind of item", i.Kind)
	}
	if err := checkRepository(i.Repository); err != nil {
		return err
	}
	if len(i.Title) > maxText || len(i.Tags) > maxTags {
		return errors.New("it has too many tags, or a title that is too long")
	}
	if d := i.Descriptor; len(d.URLs) > 0 || len(d.Data) > 0 {
		return errors.New("its descriptor has URLs or data")
	}
	all := []string{i.Repository + "@" + i.Descriptor.Digest.String()}
	for _, t := range i.Tags {
		if err := imagename.CheckTag(t); err != nil {
			return err
		}
		all = append(all, i.Repository+":"+t)
	}
	for _, n := range all {
		if names[n] {
			return fmt.Errorf("%s is in it twice", n)
		}
		names[n] = true
	}
	return nil
}
