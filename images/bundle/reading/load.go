package reading

import (
	"bytes"
	"encoding/json"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/images/bundle"
	"github.com/driver-container/driver-container/images/bundle/tarfile"
	"github.com/driver-container/driver-container/images/oci"
)

// maxDocuments bounds the documents of a bundle together: they are in memory.
const maxDocuments = 64 << 20

// load reads everything except blobs, in the order of the archive, so that get may be a pipe. The first thing
// that is wrong ends it. The signature is not judged.
func load(get func(name string) ([]byte, error)) (*Bundle, error) {
	b, index, err := loadList(get)
	switch {
	case err != nil:
		return nil, err
	case b.signatureFault != nil:
		return nil, b.signatureFault
	case !bytes.Equal(index, b.index):
		return nil, unsound("index.json is not that of the list")
	}
	for _, d := range b.List.Documents {
		raw, err := blob(get, d.Digest)
		if err != nil {
			return nil, err
		}
		b.Documents[d.Digest] = raw
	}
	if faults := b.List.CheckDocuments(b.Documents); len(faults) > 0 {
		return nil, unsound("%s", faults[0])
	}
	return b, nil
}

// loadList reads what comes before the documents, and returns index.json as it is in the file. The bundle has
// index.json as it must be.
func loadList(get func(name string) ([]byte, error)) (*Bundle, []byte, error) {
	b := &Bundle{Documents: map[v1.Hash][]byte{}}
	layout, err := get(tarfile.LayoutName)
	if err != nil {
		return nil, nil, err
	}
	if string(layout) != bundle.LayoutVersion {
		return nil, nil, unsound("%s has not the content that it must have", tarfile.LayoutName)
	}
	index, err := get(tarfile.IndexName)
	if err != nil {
		return nil, nil, err
	}
	manifest, signature, err := entries(index)
	if err != nil {
		return nil, nil, err
	}
	if err := b.readList(get, manifest); err != nil {
		return nil, nil, err
	}
	if signature != nil {
		b.Signed = true
		b.signatureFault = b.readSignature(get, *signature)
	}
	if b.index, err = b.List.Index(b.Manifest, signature); err != nil {
		return nil, nil, err
	}
	total := int64(0)
	for _, d := range b.List.Documents {
		total += d.Size
		b.own = append(b.own, d)
	}
	if total > maxDocuments {
		return nil, nil, unsound("its documents have more than %d bytes together", maxDocuments)
	}
	return b, index, nil
}

// want returns the members that a file must have.
func (b *Bundle) want() []expected {
	all := []expected{{tarfile.LayoutName, int64(len(bundle.LayoutVersion))}, {tarfile.IndexName, int64(len(b.index))}}
	for _, o := range slices.Concat(b.own, b.List.Present()) {
		all = append(all, expected{tarfile.BlobName(o.Digest.Hex), o.Size})
	}
	return all
}

// blob reads a member that has a digest.
func blob(get func(name string) ([]byte, error), h v1.Hash) ([]byte, error) {
	raw, err := get(tarfile.BlobName(h.Hex))
	if err == nil && oci.HashOf(raw) != h {
		err = unsound("%s is damaged: its content is %s", h, oci.HashOf(raw))
	}
	return raw, err
}

// ownBlob is blob, of one of the bundle's own members.
func (b *Bundle) ownBlob(get func(name string) ([]byte, error), h v1.Hash) ([]byte, error) {
	raw, err := blob(get, h)
	if err == nil {
		b.own = append(b.own, bundle.Blob{Digest: h, Size: int64(len(raw))})
	}
	return raw, err
}

// entries returns the bundle's manifest and its signature as index.json claims them. The caller compares all
// of index.json with the list.
func entries(index []byte) (v1.Hash, *v1.Descriptor, error) {
	var doc v1.IndexManifest
	if err := json.Unmarshal(index, &doc); err != nil {
		return v1.Hash{}, nil, unsound("index.json is malformed: %w", err)
	}
	all := doc.Manifests
	if len(all) == 0 || all[0].ArtifactType != bundle.MediaType || !isSHA256(all[0].Digest) {
		return v1.Hash{}, nil, unsound("index.json names no bundle: it is an OCI layout of another program")
	}
	if len(all) == 1 || all[1].ArtifactType != bundle.SignatureType || !isSHA256(all[1].Digest) ||
		all[1].Annotations[oci.SubjectAnnotation] != all[0].Digest.String() {
		return all[0].Digest, nil, nil
	}
	return all[0].Digest, &all[1], nil
}

func isSHA256(h v1.Hash) bool {
	_, err := v1.NewHash(h.String())
	return err == nil && h.Algorithm == "sha256"
}

// readList reads the bundle's manifest and its list. The manifest is the one possible manifest of the list.
func (b *Bundle) readList(get func(name string) ([]byte, error), h v1.Hash) error {
	raw, err := b.ownBlob(get, h)
	if err != nil {
		return err
	}
	refs, err := bundle.Refer(raw)
	if err != nil || len(refs.Blobs) != 2 {
		return unsound("the bundle's manifest %s is malformed", h)
	}
	if b.Raw, err = b.ownBlob(get, refs.Blobs[1].Digest); err != nil {
		return err
	}
	want, err := bundle.Manifest(b.Raw)
	if err != nil {
		return err
	}
	if !bytes.Equal(want.Raw, raw) {
		return unsound("the bundle's manifest %s is not that of its list", h)
	}
	if _, err := b.ownBlob(get, bundle.EmptyConfig().Desc.Digest); err != nil {
		return err
	}
	b.Manifest = want.Desc
	b.List, err = bundle.Decode(b.Raw)
	return err
}

// readSignature reads the signature's manifest and its sigstore bundle.
func (b *Bundle) readSignature(get func(name string) ([]byte, error), d v1.Descriptor) error {
	raw, err := b.ownBlob(get, d.Digest)
	if err != nil {
		return err
	}
	refs, err := bundle.Refer(raw)
	if err != nil || len(refs.Blobs) != 2 || refs.Blobs[0].Digest != bundle.EmptyConfig().Desc.Digest ||
		refs.Subject == nil || refs.Subject.Digest != b.Manifest.Digest || d.Size != int64(len(raw)) || d.MediaType != refs.MediaType {
		return unsound("the signature's manifest %s is not that of a signature of this bundle", d.Digest)
	}
	content, err := b.ownBlob(get, refs.Blobs[1].Digest)
	if err != nil {
		return err
	}
	layer := oci.BytesBlob("", content, nil)
	layer.Desc = refs.Blobs[1]
	b.signature = oci.Attachment{Subject: b.Manifest.Digest, Manifest: oci.Document{Raw: raw, Desc: d}, Blobs: []oci.Blob{bundle.EmptyConfig(), layer}}
	return nil
}
