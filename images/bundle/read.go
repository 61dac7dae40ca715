package bundle

import (
	"bytes"
	"crypto"
	"encoding/json"
	"errors"
	"io"
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
// signature. from is a *io.SectionReader, whose blobs can be read in any order, or a pipe. The first thing that is wrong ends
// it; such an error is a [Finding].
func Open(from io.Reader) (*Bundle, error) {
	b := &Bundle{documents: map[v1.Hash][]byte{}, tar: members{from: from}, offsets: map[v1.Hash]int64{}}
	b.file, _ = from.(*io.SectionReader)
	if err := b.readHead(); err != nil {
		return nil, err
	}
	for _, d := range b.List.Documents {
		raw, err := b.blob(d.Digest)
		if err != nil {
			return nil, err
		}
		b.documents[d.Digest] = raw
	}
	documents, blobs, err := collect(b.List.Items, b.documents)
	switch {
	case err != nil:
		return nil, finding(RuleList, "", "%v", err)
	case !equal(documents, b.List.Documents) || !equal(blobs, b.List.Blobs):
		return nil, finding(RuleList, "", "its documents and blobs are not those that its items need")
	}
	at := b.tar.at + b.tar.pad
	for _, p := range b.List.present() {
		b.offsets[p.Digest] = at + blockSize
		at += blockSize + p.Size + padding(p.Size)
	}
	return b, nil
}

func equal(a, b []Blob) bool {
	if len(a) != len(b) {
		return false
	}
	known := map[Blob]bool{}
	for _, x := range a {
		known[x] = true
	}
	for _, x := range b {
		if !known[x] {
			return false
		}
	}
	return true
}

// readHead reads what comes before the documents.
func (b *Bundle) readHead() error {
	layout, err := b.member(layoutName)
	if err == nil && string(layout) != layoutVersion {
		err = finding(RuleDamaged, layoutName, "its content is not that of a layout")
	}
	if err != nil {
		return err
	}
	index, err := b.member(indexName)
	if err != nil {
		return err
	}
	manifest, signed, err := entries(index)
	if err != nil {
		return err
	}
	if err := b.readList(manifest); err != nil {
		return err
	}
	if signed != nil {
		if err := b.readSignature(*signed); err != nil {
			return err
		}
	}
	if want, err := b.List.index(b.Manifest, signed); err != nil || !bytes.Equal(index, want) {
		return finding(RuleIndex, indexName, "it is not that of the list")
	}
	return nil
}

// entries returns the bundle's manifest and its signature as index.json claims them. The caller compares all
// of index.json with the list.
func entries(index []byte) (manifest v1.Hash, signed *v1.Descriptor, err error) {
	var doc v1.IndexManifest
	if err := json.Unmarshal(index, &doc); err != nil {
		return v1.Hash{}, nil, finding(RuleIndex, indexName, "it is malformed: %v", err)
	}
	all := doc.Manifests
	if len(all) == 0 || all[0].ArtifactType != MediaType {
		return v1.Hash{}, nil, finding(RuleIndex, indexName, "it names no bundle: it is an OCI layout of another program")
	}
	if len(all) > 1 && all[1].ArtifactType == signatureType && all[1].Annotations[oci.SubjectAnnotation] == all[0].Digest.String() {
		signed = &all[1]
	}
	return all[0].Digest, signed, nil
}

// readList reads the bundle's manifest, which is the one possible manifest of the list, and the list.
func (b *Bundle) readList(h v1.Hash) error {
	raw, err := b.blob(h)
	if err != nil {
		return err
	}
	refs, err := refer(raw)
	if err != nil || len(refs.named) != 2 {
		return finding(RuleList, blobFolder+h.Hex, "the bundle's manifest is malformed")
	}
	if b.Raw, err = b.blob(refs.named[0].Digest); err != nil {
		return err
	}
	want, err := manifestOf(b.Raw)
	if err != nil || !bytes.Equal(want.Raw, raw) {
		return finding(RuleList, blobFolder+h.Hex, "the bundle's manifest is not that of its list")
	}
	if _, err := b.blob(emptyConfig.Desc.Digest); err != nil {
		return err
	}
	b.Manifest = want.Desc
	b.List, err = Decode(b.Raw)
	return err
}

// readSignature reads the signature's manifest and its sigstore bundle.
func (b *Bundle) readSignature(d v1.Descriptor) error {
	raw, err := b.blob(d.Digest)
	if err != nil {
		return err
	}
	refs, err := refer(raw)
	if err != nil || len(refs.named) != 2 || refs.named[1].Digest != emptyConfig.Desc.Digest || refs.subject == nil ||
		refs.subject.Digest != b.Manifest.Digest || d.Size != int64(len(raw)) || d.MediaType != refs.mediaType {
		return finding(RuleSignature, blobFolder+d.Digest.Hex, "it is not the manifest of a signature of this bundle")
	}
	content, err := b.blob(refs.named[0].Digest)
	if err != nil {
		return err
	}
	layer := oci.BytesBlob("", content, nil)
	layer.Desc = refs.named[0]
	b.Signed = true
	b.signature = oci.Attachment{Subject: b.Manifest.Digest, Manifest: oci.Document{Raw: raw, Desc: d}, Blobs: []oci.Blob{emptyConfig, layer}}
	return nil
}

// member reads the next member, which has a name and is a document.
func (b *Bundle) member(want string) ([]byte, error) {
	name, size, err := b.tar.next()
	switch {
	case errors.Is(err, io.EOF):
		return nil, finding(RuleMissing, want, "it is not in the file")
	case err != nil:
		return nil, err
	case name != want:
		return nil, finding(RuleArchive, want, "%q is in its place", name)
	case size > MaxDocument:
		return nil, finding(RuleSize, want, "it has %d bytes, at most %d are allowed", size, MaxDocument)
	}
	return io.ReadAll(&b.tar)
}

// blob is member, of one that has a digest.
func (b *Bundle) blob(h v1.Hash) ([]byte, error) {
	raw, err := b.member(blobFolder + h.Hex)
	if got := oci.HashOf(raw); err == nil && got != h {
		err = finding(RuleDamaged, blobFolder+h.Hex, "its content has the digest %s", got)
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
	if !ok || b.file == nil {
		return oci.Blob{}, false
	}
	desc := v1.Descriptor{Digest: d.Digest, Size: d.Size}
	return oci.Blob{Desc: desc, Open: func() (io.ReadCloser, error) {
		return oci.Verify(io.NopCloser(io.NewSectionReader(b.file, at, d.Size)), desc, "the bundle"), nil
	}}, true
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
		_, blobs, _ := collect([]Item{{Repository: i.Repository, Descriptor: i.Descriptor}}, b.documents) // was collected before
		for _, d := range blobs {
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
