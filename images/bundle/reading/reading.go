// Package reading reads and verifies bundles where they are: nothing is unpacked. Check compares every byte
// with the list, in both directions, and reports everything that is wrong. From a pipe, Stream
// does so in one pass.
package reading

import (
	"bytes"
	"context"
	"fmt"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/images/bundle"
	"github.com/driver-container/driver-container/images/bundle/tarfile"
	"github.com/driver-container/driver-container/images/oci"
)

// Source is the file of a bundle.
type Source struct {
	Name    string
	Content io.ReaderAt
	Size    int64
}

// Options say what is checked beside the content.
type Options struct {
	Verify   bundle.Verifier                      // nil: signatures are passed over
	Progress func(file string, done, total int64) // nil: no reports
}

// Bundle is what a file holds.
type Bundle struct {
	List      *bundle.List
	Raw       []byte        // the list's bytes
	Manifest  v1.Descriptor // of the bundle
	Signed    bool          // it has a signature, of any key
	Documents map[v1.Hash][]byte

	own            []bundle.Blob  // the blobs that come first, in their order
	index          []byte         // index.json as it must be
	signature      oci.Attachment // of the bundle, if it is signed
	signatureFault error          // why it cannot be read
	file           *file
}

// expected is a member that a file must have.
type expected struct {
	name string
	size int64
}

// Blob returns a blob that is in the file.
func (b *Bundle) Blob(h v1.Hash) (oci.Blob, bool) {
	if b.file == nil { // a pipe
		return oci.Blob{}, false
	}
	m, ok := b.file.byName[tarfile.BlobName(h.Hex)]
	return oci.Blob{Desc: v1.Descriptor{Digest: h, Size: m.Size}, Open: func() (io.ReadCloser, error) {
		return io.NopCloser(io.NewSectionReader(b.file.Content, m.Offset, m.Size)), nil
	}}, ok
}

// Load reads the list of a bundle and the documents, and verifies only these: for commands that show what is
// in it.
func Load(s Source) (*Bundle, error) {
	f := &file{Source: s}
	if err := f.index(func(bundle.Finding) {}); err != nil {
		return nil, fmt.Errorf("read %s: %w", s.Name, err)
	}
	b, err := load(f.get)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", s.Name, err)
	}
	b.file = f
	return b, nil
}

// Check reads and verifies a file. The findings are sorted; the bundle is nil when not even its list can be
// read. Errors are about reading the file.
func Check(ctx context.Context, s Source, o Options) (*Bundle, []bundle.Finding, error) {
	c := &check{Options: o, file: &file{Source: s}}
	err := c.file.index(c.add)
	if err == nil {
		err = c.load()
	}
	if err == nil {
		err = c.run(ctx)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read %s: %w", s.Name, err)
	}
	return c.bundle, bundle.Sort(c.findings), nil
}

// file is a source and its members.
type file struct {
	Source
	members []tarfile.Member
	byName  map[string]tarfile.Member
}

func (f *file) index(add func(bundle.Finding)) (err error) {
	f.members, err = tarfile.Index(f.Content, f.Size, func(member, message string) {
		add(bundle.Finding{File: f.Name, Member: member, Rule: bundle.RuleArchive, Message: message})
	})
	f.byName = map[string]tarfile.Member{}
	for _, m := range f.members {
		f.byName[m.Name] = m
	}
	return err
}

// get reads a member of bounded size.
func (f *file) get(name string) ([]byte, error) {
	m, ok := f.byName[name]
	if !ok {
		return nil, unsound("%s is missing", name)
	}
	if m.Size > bundle.MaxDocument {
		return nil, unsound("%s has %d bytes, at most %d are allowed", name, m.Size, bundle.MaxDocument)
	}
	raw := make([]byte, m.Size)
	_, err := io.ReadFull(io.NewSectionReader(f.Content, m.Offset, m.Size), raw)
	return raw, err
}

func unsound(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{bundle.ErrUnsound}, args...)...)
}

// same says whether a file has the content of a member.
func (f *file) same(name string, want []byte) bool {
	got, err := f.get(name)
	return err == nil && bytes.Equal(got, want)
}
