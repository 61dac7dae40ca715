package reading

import (
	"context"
	"errors"
	"fmt"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/bundle"
	"github.com/driver-container/driver-container/images/bundle/tarfile"
	"github.com/driver-container/driver-container/images/oci"
)

// check is the state of one verification.
type check struct {
	Options
	files    []*file
	bundle   *Bundle
	first    string // file that the list is from
	findings []bundle.Finding
	parts    map[int]string // name of the file that has a part
}

func (c *check) add(f bundle.Finding) { c.findings = append(c.findings, f) }

// load reads list and documents from the first file that has a sound list.
func (c *check) load() error {
	for _, f := range c.files {
		b, _, err := loadList(f.get)
		if err == nil {
			c.bundle, c.first = b, f.Name
			break
		}
		if !errors.Is(err, bundle.ErrUnsound) {
			return fmt.Errorf("read %s: %w", f.Name, err)
		}
		c.add(bundle.Finding{File: f.Name, Rule: bundle.RuleList, Message: err.Error()})
	}
	if c.bundle == nil {
		return nil
	}
	for _, d := range c.bundle.List.Documents {
		for _, f := range c.files {
			if raw, err := blob(f.get, d.Digest); err == nil {
				c.bundle.Documents[d.Digest] = raw
				break
			}
		}
	}
	for _, fault := range c.bundle.List.CheckDocuments(c.bundle.Documents) {
		c.add(bundle.Finding{Rule: bundle.RuleList, Message: fault})
	}
	return nil
}

// run compares the files with the list. Without one it still says which members are damaged.
func (c *check) run(ctx context.Context) error {
	if c.bundle == nil {
		for _, f := range c.files {
			if err := c.content(ctx, f, nil); err != nil {
				return err
			}
		}
		return nil
	}
	c.signature(ctx)
	c.parts = map[int]string{}
	present := c.bundle.List.Present()
	owner := map[string]int{}
	for n, part := range present {
		for _, b := range part {
			owner[tarfile.BlobName(b.Digest.Hex)] = n
		}
	}
	for _, f := range c.files {
		if c.foreign(f) {
			continue
		}
		c.bundle.find(f)
		want := c.bundle.head()
		if n, ok := c.part(f, owner); ok {
			for _, b := range present[n] {
				want = append(want, expected{tarfile.BlobName(b.Digest.Hex), b.Size})
			}
		}
		c.compare(f, want)
		if err := c.content(ctx, f, want); err != nil {
			return err
		}
	}
	for n := range present {
		if c.parts[n] == "" && !c.SomePart {
			c.add(bundle.Finding{Rule: bundle.RuleParts, Message: fmt.Sprintf("part %d of %d is missing: give all files of the bundle", n+1, len(present))})
		}
	}
	return nil
}

func (c *check) signature(ctx context.Context) {
	if err := c.bundle.signatureFault; err != nil {
		c.add(bundle.Finding{Rule: bundle.RuleSignature, Message: err.Error()})
		return
	}
	if c.Verify == nil {
		return
	}
	err := errors.New("it is not signed")
	if c.bundle.Signed {
		err = c.Verify(ctx, c.bundle.Manifest, c.bundle.signature)
	}
	if err != nil {
		c.add(bundle.Finding{Rule: bundle.RuleSignature, Message: err.Error()})
	}
}

// foreign says whether a file belongs to another bundle.
func (c *check) foreign(f *file) bool {
	if f.same(tarfile.IndexName, c.bundle.index) {
		return false
	}
	raw, err := f.get(tarfile.IndexName)
	if err == nil {
		var other v1.Hash
		if other, _, err = entries(raw); err == nil && other != c.bundle.Manifest.Digest {
			c.add(bundle.Finding{File: f.Name, Rule: bundle.RuleParts, Message: fmt.Sprintf("it belongs to the bundle %s, and %s to %s",
				other, c.first, c.bundle.Manifest.Digest)})
			return true
		}
	}
	c.add(bundle.Finding{File: f.Name, Member: tarfile.IndexName, Rule: bundle.RuleIndex, Message: "it is not that of the list"})
	return false
}

// part returns which part a file is, by the first of its blobs.
func (c *check) part(f *file, owner map[string]int) (int, bool) {
	part, found := 0, len(c.bundle.List.Parts) == 1
	for _, m := range f.members {
		if n, ok := owner[m.Name]; ok {
			part, found = n, true
			break
		}
	}
	if !found {
		if !f.faulty {
			c.add(bundle.Finding{File: f.Name, Rule: bundle.RuleParts, Message: "it has no blob of any part"})
		}
		return 0, false
	}
	if other := c.parts[part]; other != "" {
		c.add(bundle.Finding{File: f.Name, Rule: bundle.RuleParts, Message: fmt.Sprintf("it is part %d, as %s is", part+1, other)})
	}
	c.parts[part] = f.Name
	return part, true
}

// compare compares names and sizes of a file's members with those that it must have, in both directions.
func (c *check) compare(f *file, want []expected) {
	have := map[string]int64{}
	for _, m := range f.members {
		have[m.Name] = m.Size
	}
	known := map[string]bool{}
	for _, w := range want {
		known[w.name] = true
		switch size, ok := have[w.name]; {
		case !ok:
			c.add(bundle.Finding{File: f.Name, Member: w.name, Rule: bundle.RuleMissing, Message: fmt.Sprintf("it is on the list with %d bytes, and not in the file", w.size)})
		case size != w.size:
			c.add(bundle.Finding{File: f.Name, Member: w.name, Rule: bundle.RuleSize, Message: fmt.Sprintf("it has %d bytes, and %d on the list", size, w.size)})
		}
	}
	ordered := len(want) == len(f.members)
	for n, m := range f.members {
		if !known[m.Name] {
			ordered = false
			c.add(bundle.Finding{File: f.Name, Member: m.Name, Rule: bundle.RuleExtra, Message: "it is in the file, and not on its list"})
		} else if ordered && want[n].name != m.Name {
			ordered = false
			c.add(bundle.Finding{File: f.Name, Member: m.Name, Rule: bundle.RuleArchive, Message: "it is not in its place"})
		}
	}
}

// content reads all members of a file in one pass.
func (c *check) content(ctx context.Context, f *file, want []expected) error {
	sizes := map[string]int64{}
	for _, w := range want {
		sizes[w.name] = w.size
	}
	for _, m := range f.members {
		if m.Name == tarfile.LayoutName && !f.same(m.Name, []byte(bundle.LayoutVersion)) {
			c.add(bundle.Finding{File: f.Name, Member: m.Name, Rule: bundle.RuleDamaged, Message: "its content is not that of a layout"})
		}
		hex, isBlob := tarfile.BlobHex(m.Name)
		if size, listed := sizes[m.Name]; !isBlob || listed && size != m.Size {
			continue
		}
		d := v1.Descriptor{Digest: v1.Hash{Algorithm: "sha256", Hex: hex}, Size: m.Size}
		r := oci.Verify(io.NopCloser(io.NewSectionReader(f.Content, m.Offset, m.Size)), d, m.Name)
		err := fetch.Copy(ctx, io.Discard, r, func(done int64) {
			if c.Progress != nil {
				c.Progress(f.Name, m.Offset+done, f.Size)
			}
		})
		if wrong, ok := errors.AsType[*fetch.MismatchError](err); ok {
			c.add(bundle.Finding{File: f.Name, Member: m.Name, Rule: bundle.RuleDamaged, Message: "its content has the digest sha256:" + wrong.Got})
		} else if err != nil {
			return fmt.Errorf("read %s in %s: %w", m.Name, f.Name, err)
		}
	}
	if c.Progress != nil {
		c.Progress(f.Name, f.Size, f.Size)
	}
	return nil
}
