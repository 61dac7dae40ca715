package bundle

import (
	"bytes"
	"crypto"
	"errors"
	"io"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/signature"
)

// Bundle is what a file or a pipe holds.
type Bundle struct {
	List     *List
	Raw      []byte        // the list's bytes
	Manifest v1.Descriptor // of the bundle
	Signed   bool          // it has a signature, of any key

	documents map[v1.Hash][]byte
	signature oci.Attachment
	tar       members
	file      *io.SectionReader // nil: a pipe
	offsets   map[v1.Hash]int64 // of the blobs in the file
}

// Open reads everything up to the first blob, in the order of the archive, and verifies it, except for the
// signature. from is a *io.SectionReader, whose blobs can be read in any order, or a pipe. The first thing that is
// wrong ends it; such an error is a [Finding].
func Open(from io.Reader) (*Bundle, error) {
	b := &Bundle{documents: map[v1.Hash][]byte{}, tar: members{from: from}, offsets: map[v1.Hash]int64{}}
	b.file, _ = from.(*io.SectionReader)
	if err := b.readList(); err != nil {
		return nil, err
	}
	for _, d := range b.List.Documents {
		raw, err := b.document(d.Digest.Hex)
		if err != nil {
			return nil, err
		}
		b.documents[d.Digest] = raw
	}
	g, err := collect(b.List.Items, b.documents)
	if err == nil {
		err = checkFiles(b.List.Items, b.documents)
	}
	switch {
	case err != nil:
		return nil, finding(RuleList, "", "%v", err)
	case !slices.Equal(g.documents, b.List.Documents) || !slices.Equal(g.blobs, b.List.Blobs):
		return nil, finding(RuleList, "", "its documents and blobs are not those that its items need")
	}
	at := b.tar.at + b.tar.pad
	for _, p := range b.List.present() {
		b.offsets[p.Digest] = at + blockSize
		at += space(p.Size)
	}
	return b, nil
}

// readList reads what comes before the documents: index.json and the bundle's manifest, which are the only ones that its
// list and its signature can have, and these.
func (b *Bundle) readList() error {
	_, layout, err := b.member(layoutName)
	if err != nil {
		return err
	}
	if string(layout) != layoutVersion {
		return finding(RuleDamaged, layoutName, "its content is not that of a layout")
	}
	_, index, err := b.member(indexName)
	if err != nil {
		return err
	}
	if !bytes.Contains(index, []byte(MediaType)) {
		return finding(RuleIndex, indexName, "it names no bundle: it is an OCI layout of another program")
	}
	manifest, err := b.document("")
	if err == nil {
		b.Raw, err = b.document("")
	}
	if err != nil {
		return err
	}
	if b.List, err = Decode(b.Raw); err != nil {
		return err
	}
	want, err := manifestOf(b.Raw)
	if err == nil && !bytes.Equal(want.Raw, manifest) {
		err = finding(RuleList, "", "the bundle's manifest is not that of its list")
	}
	if err == nil {
		b.Manifest = want.Desc
		_, err = b.document(emptyConfig.Desc.Digest.Hex)
	}
	var signed *v1.Descriptor
	if err == nil && bytes.Contains(index, []byte(`"`+oci.SubjectAnnotation+`":"`+want.Desc.Digest.String()+`"`)) {
		b.Signed, signed = true, &b.signature.Manifest.Desc
		err = b.readSignature()
	}
	if err != nil {
		return err
	}
	if computed, err := b.List.index(b.Manifest, signed); err != nil || !bytes.Equal(index, computed) {
		return finding(RuleIndex, indexName, "it is not that of the list")
	}
	return nil
}

// readSignature reads the signature's manifest and its sigstore bundle.
func (b *Bundle) readSignature() error {
	raw, err := b.document("")
	if err != nil {
		return err
	}
	content, err := b.document("")
	if err != nil {
		return err
	}
	open := func(v1.Descriptor) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil }
	artifact, err := oci.NewArtifact(raw, oci.RemoteBlobs("the bundle", nil, open))
	if err == nil {
		b.signature, err = oci.AttachmentOf(b.Manifest.Digest, "", artifact)
	}
	if err != nil {
		return finding(RuleSignature, "", "its manifest is not that of a signature of this bundle: %v", err)
	}
	return nil
}

// member reads the next member, which is small. want is its name, "" for any.
func (b *Bundle) member(want string) (name string, raw []byte, err error) {
	name, size, err := b.tar.next()
	switch {
	case errors.Is(err, io.EOF):
		err = finding(RuleMissing, want, "it is not in the file")
	case err == nil && name != want && want != "":
		err = finding(RuleArchive, want, "%q is in its place", name)
	case err == nil && size > MaxDocument:
		err = finding(RuleSize, name, "it has %d bytes, at most %d are allowed", size, MaxDocument)
	}
	if err == nil {
		raw, err = io.ReadAll(&b.tar)
	}
	return name, raw, err
}

// document reads the next member, whose name is its digest: h, or any if that is "".
func (b *Bundle) document(h string) ([]byte, error) {
	want := ""
	if h != "" {
		want = blobFolder + h
	}
	name, raw, err := b.member(want)
	if got := oci.HashOf(raw); err == nil && name != blobFolder+got.Hex {
		err = finding(RuleDamaged, name, "its content has the digest %s", got)
	}
	return raw, err
}

// VerifySignature says, as a [Finding], why no key signed the bundle. Without keys it does not matter who did.
func (b *Bundle) VerifySignature(keys []crypto.PublicKey) error {
	if len(keys) == 0 {
		return nil
	}
	subject := signature.Subject{Descriptor: b.Manifest}
	if b.Signed {
		subject.Attachments = []oci.Attachment{b.signature}
	}
	reports, err := signature.Verify([]signature.Subject{subject}, keys)
	if err == nil {
		err = reports[0].Err()
	}
	if err != nil {
		return finding(RuleSignature, "", "%v", err)
	}
	return nil
}

// reader returns a blob of the file.
func (b *Bundle) reader(d Blob) (oci.Blob, bool) {
	at, ok := b.offsets[d.Digest]
	return verified(d, func() io.Reader { return io.NewSectionReader(b.file, at, d.Size) }), ok && b.file != nil
}

func verified(b Blob, open func() io.Reader) oci.Blob {
	d := v1.Descriptor{Digest: b.Digest, Size: b.Size}
	return oci.Blob{Desc: d, Open: func() (io.ReadCloser, error) { return oci.Verify(io.NopCloser(open()), d, "the bundle"), nil }}
}

// Summary is an item for people.
type Summary struct {
	Kind   Kind
	Name   string // repository and tags; of an attachment what it belongs to
	Digest v1.Hash
	Bytes  int64 // of the blobs that it names, in the bundle or not
}

// Summaries returns the items with their sizes.
func (b *Bundle) Summaries() (all []Summary) {
	for _, i := range b.List.Items {
		s := Summary{Kind: i.Kind, Name: i.Repository, Digest: i.Descriptor.Digest}
		for _, d := range b.needs(i).blobs {
			s.Bytes += d.Size
		}
		switch {
		case i.Subject != nil:
			s.Name = "of " + i.Subject.String()
		case len(i.Tags) > 0:
			s.Name += ":" + strings.Join(i.Tags, ",")
		}
		all = append(all, s)
	}
	return all
}

// needs returns what an item needs.
func (b *Bundle) needs(i Item) *graph {
	i.Subject = nil
	g, _ := collect([]Item{i}, b.documents) // which Open did too
	return g
}
