package reading

import (
	"bytes"
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
	file     *file
	bundle   *Bundle
	findings []bundle.Finding
}

func (c *check) add(f bundle.Finding) { c.findings = append(c.findings, f) }

// load reads the list and the documents.
func (c *check) load() error {
	b, index, err := loadList(c.file.get)
	switch {
	case errors.Is(err, bundle.ErrUnsound):
		c.find("", bundle.RuleList, "%v", err)
		return nil
	case err != nil:
		return err
	}
	c.bundle, b.file = b, c.file
	if !bytes.Equal(index, b.index) {
		c.find(tarfile.IndexName, bundle.RuleIndex, "it is not that of the list")
	}
	for _, d := range b.List.Documents {
		if raw, err := blob(c.file.get, d.Digest); err == nil {
			b.Documents[d.Digest] = raw
		}
	}
	for _, fault := range b.List.CheckDocuments(b.Documents) {
		c.add(bundle.Finding{Rule: bundle.RuleList, Message: fault})
	}
	return nil
}

// find adds a finding about a member, or about the whole file.
func (c *check) find(member string, rule bundle.Rule, format string, args ...any) {
	c.add(bundle.Finding{File: c.file.Name, Member: member, Rule: rule, Message: fmt.Sprintf(format, args...)})
}

// run compares the file with the list. Without one it still says which members are damaged.
func (c *check) run(ctx context.Context) error {
	if c.bundle == nil {
		return c.content(ctx, nil)
	}
	c.signature(ctx)
	want := c.bundle.want()
	c.compare(want)
	return c.content(ctx, want)
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

// compare compares names and sizes of the members with those that there must be, in both directions.
func (c *check) compare(want []expected) {
	have := map[string]int64{}
	for _, m := range c.file.members {
		have[m.Name] = m.Size
	}
	known := map[string]bool{}
	for _, w := range want {
		known[w.name] = true
		switch size, ok := have[w.name]; {
		case !ok:
			c.find(w.name, bundle.RuleMissing, "it is on the list with %d bytes, and not in the file", w.size)
		case size != w.size:
			c.find(w.name, bundle.RuleSize, "it has %d bytes, and %d on the list", size, w.size)
		}
	}
	ordered := len(want) == len(c.file.members)
	for n, m := range c.file.members {
		if !known[m.Name] {
			ordered = false
			c.find(m.Name, bundle.RuleExtra, "it is in the file, and not on its list")
		} else if ordered && want[n].name != m.Name {
			ordered = false
			c.find(m.Name, bundle.RuleArchive, "it is not in its place")
		}
	}
}

// content reads all members in one pass.
func (c *check) content(ctx context.Context, want []expected) error {
	sizes := map[string]int64{}
	for _, w := range want {
		sizes[w.name] = w.size
	}
	for _, m := range c.file.members {
		if m.Name == tarfile.LayoutName && !c.file.same(m.Name, []byte(bundle.LayoutVersion)) {
			c.find(m.Name, bundle.RuleDamaged, "its content is not that of a layout")
		}
		hex, isBlob := tarfile.BlobHex(m.Name)
		if size, listed := sizes[m.Name]; !isBlob || listed && size != m.Size {
			continue
		}
		d := v1.Descriptor{Digest: v1.Hash{Algorithm: "sha256", Hex: hex}, Size: m.Size}
		r := oci.Verify(io.NopCloser(io.NewSectionReader(c.file.Content, m.Offset, m.Size)), d, m.Name)
		err := fetch.Copy(ctx, io.Discard, r, func(done int64) {
			if c.Progress != nil {
				c.Progress(c.file.Name, m.Offset+done, c.file.Size)
			}
		})
		if wrong, ok := errors.AsType[*fetch.MismatchError](err); ok {
			c.find(m.Name, bundle.RuleDamaged, "its content has the digest sha256:%s", wrong.Got)
		} else if err != nil {
			return fmt.Errorf("%s: %w", m.Name, err)
		}
	}
	if c.Progress != nil {
		c.Progress(c.file.Name, c.file.Size, c.file.Size)
	}
	return nil
}
