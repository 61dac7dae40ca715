package bundle

import (
	"bytes"
	"crypto"
	"errors"
	"fmt"
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
	graph     *graph
	signature oci.Attachment
	tar       members
	file      *io.SectionReader // nil: a pipe
	offsets   map[v1.Hash]int64 // of the blobs in the file
}

// Open reads everything up to the first blob, in the order of the archive, and verifies it, except
// for the signature. from is a *io.SectionReader, whose blobs can be read in any order, or a pipe.
// The first thing that is wrong ends it; such an error is a [Fault].
func Open(from io.Reader) (*Bundle, error) {
	b := &Bundle{
		documents: map[v1.Hash][]byte{},
		tar:       members{from: from},
		offsets:   map[v1.Hash]int64{},
	}
	b.file, _ = from.(*io.SectionReader)
	err := b.readHead()
	if err != nil {
		return nil, err
	}
	for _, d := range b.List.Documents {
		b.documents[d.Digest], err = b.member(blobFolder + d.Digest.Hex)
		if err != nil {
			return nil, err
		}
	}
	parts, err := readParts(b.List.Items, b.documents, b.open)
	if err != nil {
		return nil, fault(RuleList, "", "%v", err)
	}
	b.graph, err = newGraph(parts)
	if err != nil {
		return nil, fault(RuleList, "", "%v", err)
	}
	if !slices.Equal(b.graph.documents, b.List.Documents) ||
		!slices.Equal(b.graph.blobs, b.List.Blobs) {
		return nil, fault(RuleList, "", "its documents and blobs are not those that its items need")
	}
	at := b.tar.at + b.tar.pad
	for _, p := range b.List.present() {
		b.offsets[p.Digest] = at + blockSize
		at += oci.MemberSize(p.Size)
	}
	return b, nil
}

// readHead reads what comes before the documents: index.json and the bundle's manifest, which are
// the only ones that its list and its signature can have, and these.
func (b *Bundle) readHead() error {
	head, err := b.readMembers(layoutName, indexName)
	if err != nil {
		return err
	}
	if string(head[0]) != oci.LayoutVersion {
		return fault(RuleDamaged, layoutName, "its content is not that of a layout")
	}
	index := head[1]
	if !bytes.Contains(index, []byte(MediaType)) {
		return fault(
			RuleIndex, indexName, "it names no bundle: it is an OCI layout of another program",
		)
	}
	own, err := b.readMembers("", "")
	if err != nil {
		return err
	}
	b.Raw = own[1]
	b.List, err = Decode(b.Raw)
	if err != nil {
		return err
	}
	want, err := manifestOf(b.Raw)
	if err != nil || !bytes.Equal(want.Raw, own[0]) {
		return fault(RuleList, "", "the bundle's manifest is not that of its list")
	}
	b.Manifest = want.Desc
	_, err = b.readMembers(blobFolder + emptyConfig.Desc.Digest.Hex)
	if err != nil {
		return err
	}
	subject := `"` + oci.SubjectAnnotation + `":"` + want.Desc.Digest.String() + `"`
	b.Signed = bytes.Contains(index, []byte(subject))
	var signed *v1.Descriptor
	if b.Signed {
		err := b.readSignature()
		if err != nil {
			return err
		}
		signed = &b.signature.Manifest.Desc
	}
	computed, err := b.List.index(b.Manifest, signed)
	if err != nil || !bytes.Equal(index, computed) {
		return fault(RuleIndex, indexName, "it is not that of the list")
	}
	return nil
}

// readMembers reads the next members, see member.
func (b *Bundle) readMembers(names ...string) (all [][]byte, err error) {
	for _, name := range names {
		raw, err := b.member(name)
		if err != nil {
			return nil, err
		}
		all = append(all, raw)
	}
	return all, nil
}

// readSignature reads the signature's manifest and its sigstore bundle.
func (b *Bundle) readSignature() error {
	signed, err := b.readMembers("", "")
	if err != nil {
		return err
	}
	content := oci.RemoteBlobs("the bundle", nil, func(v1.Descriptor) (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(signed[1])), nil
	})
	artifact, err := oci.NewArtifact(signed[0], content)
	if err != nil {
		return fault(RuleSignature, "", "its manifest is malformed: %v", err)
	}
	b.signature, err = oci.AttachmentOf(b.Manifest.Digest, "", artifact)
	if err != nil {
		return fault(
			RuleSignature, "", "its manifest is not that of a signature of this bundle: %v", err,
		)
	}
	return nil
}

// member reads the next member, which is small. want is its name, "" for any that is its digest.
func (b *Bundle) member(want string) ([]byte, error) {
	name, size, err := b.tar.next()
	switch {
	case errors.Is(err, io.EOF):
		return nil, fault(RuleMissing, want, "it is not in the file")
	case err != nil:
		return nil, err
	case name != want && want != "":
		return nil, fault(RuleArchive, want, "%q is in its place", name)
	case size > MaxDocument:
		return nil, fault(
			RuleSize, name, "it has %d bytes, at most %d are allowed", size, MaxDocument,
		)
	}
	raw, err := io.ReadAll(&b.tar)
	if err != nil {
		return nil, err
	}
	got := oci.HashOf(raw)
	if want != layoutName && want != indexName && name != blobFolder+got.Hex {
		return nil, fault(RuleDamaged, name, "its content has the digest %s", got)
	}
	return raw, nil
}

// VerifySignature says, as a [Fault], why no key signed the bundle. Without keys it does not
// matter who did.
func (b *Bundle) VerifySignature(keys []crypto.PublicKey) error {
	if len(keys) == 0 {
		return nil
	}
	subject := signature.Subject{Descriptor: b.Manifest}
	if b.Signed {
		subject.Attachments = []oci.Attachment{b.signature}
	}
	reports, err := signature.Verify([]signature.Subject{subject}, keys)
	if err != nil {
		return fault(RuleSignature, "", "%v", err)
	}
	err = reports[0].Err()
	if err != nil {
		return fault(RuleSignature, "", "%v", err)
	}
	return nil
}

// open opens a document of a bundle, or a blob of a file.
func (b *Bundle) open(d v1.Descriptor) (io.ReadCloser, error) {
	if d.Digest == emptyConfig.Desc.Digest {
		return emptyConfig.Open()
	}
	if raw, ok := b.documents[d.Digest]; ok {
		return io.NopCloser(bytes.NewReader(raw)), nil
	}
	at, ok := b.offsets[d.Digest]
	if !ok || b.file == nil {
		return nil, fmt.Errorf(
			"%s is not in the bundle: take one that was made without --since",
			d.Digest,
		)
	}
	return verified(d, io.NewSectionReader(b.file, at, d.Size)), nil
}

func verified(d v1.Descriptor, from io.Reader) io.ReadCloser {
	return oci.Verify(io.NopCloser(from), d, "the bundle")
}

// Summary is an item for people.
type Summary struct {
	Kind   ItemKind
	Name   string // repository and tags; of an attachment what it belongs to
	Digest v1.Hash
	Bytes  int64 // of the blobs that it names, in the bundle or not
}

// Summaries returns the items with their sizes.
func (b *Bundle) Summaries() (all []Summary) {
	for _, p := range b.graph.parts {
		s := Summary{Kind: p.Kind, Name: p.Repository, Digest: p.Descriptor.Digest}
		for _, blob := range p.Blobs {
			s.Bytes += blob.Desc.Size
		}
		if p.Subject != nil {
			s.Name = "of " + p.Subject.String()
		} else if len(p.Tags) > 0 {
			s.Name += ":" + strings.Join(p.Tags, ",")
		}
		all = append(all, s)
	}
	return all
}
