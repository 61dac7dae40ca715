package oci

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Attachment is a manifest that belongs to an image or an index, with its blobs: a signature, an
// attestation, an SBOM. A registry finds it by its tag, or, if it has none, as a referrer of its
// subject.
type Attachment struct {
	Subject v1.Hash // of the manifest or index that it belongs to
	Tag     string  // cosign's scheme, see SignatureTag and AttestationTag; "": a referrer
	// its descriptor has ArtifactType and Annotations, as an index of referrers lists them
	Manifest Document
	Blobs    []Blob // layers and config, each once
	// documents that the manifest names, which is an index then; almost always none
	Nested []Document
}

// Content returns everything that belongs to the attachment itself.
func (a Attachment) Content() *Content {
	return &Content{Blobs: a.Blobs, Documents: append(slices.Clone(a.Nested), a.Manifest)}
}

// ErrSubject says that a manifest does not belong to what it was listed for.
var ErrSubject = errors.New("it does not refer to that subject")

// AttachmentOf makes an attachment of a manifest that was read. The error is [ErrSubject] if the
// manifest has no tag and names another subject.
func AttachmentOf(subject v1.Hash, tag string, t Artifact) (a Attachment, err error) {
	all, err := Collect(t)
	if err != nil {
		return a, err
	}
	top := all.Top()
	doc, err := parse(top.Raw)
	if err != nil {
		return a, err
	}
	if tag == "" && doc.Subject.Digest != subject {
		return a, ErrSubject
	}
	top.Desc.Annotations = doc.Annotations
	top.Desc.ArtifactType = doc.ArtifactType
	if doc.Config != nil {
		top.Desc.ArtifactType = cmp.Or(doc.ArtifactType, string(doc.Config.MediaType))
	}
	return Attachment{
		Subject:  subject,
		Tag:      tag,
		Manifest: top,
		Blobs:    all.Blobs,
		Nested:   all.Documents[:len(all.Documents)-1],
	}, nil
}

// EmptyConfig is the media type of the config of a manifest that is not an image, by the OCI image
// specification 1.1.
const EmptyConfig types.MediaType = "application/vnd.oci.empty.v1+json"

// SignatureTag is the tag under which cosign, Podman and CRI-O look for the signatures of an image.
func SignatureTag(subject v1.Hash) string { return ReferrersTag(subject) + ".sig" }

// AttestationTag is the tag under which cosign and admission controllers look for attestations.
func AttestationTag(subject v1.Hash) string { return ReferrersTag(subject) + ".att" }

// ReferrersTag is the tag of the index that lists the referrers of a manifest in a registry without
// the referrers API (OCI distribution specification 1.1, "Referrers Tag Schema").
func ReferrersTag(subject v1.Hash) string { return subject.Algorithm + "-" + subject.Hex }

// LayerTagPrefix is the beginning of the tags by which builds find layers; the key of a layer
// follows.
const LayerTagPrefix = "layer-"

// IsAttachmentTag says whether a tag names no image of people: one of the three above, or that of a
// layer.
func IsAttachmentTag(tag string) bool {
	hex, found := strings.CutPrefix(strings.Replace(tag, LayerTagPrefix, "sha256-", 1), "sha256-")
	hex = strings.TrimSuffix(strings.TrimSuffix(hex, ".sig"), ".att")
	_, err := v1.NewHash("sha256:" + hex)
	return found && err == nil
}

// NewReferrer makes a referrer of a manifest or an index: a manifest of these layers with an empty
// config. The same input gives the same bytes.
func NewReferrer(
	subject v1.Descriptor,
	artifactType string,
	layers []Blob,
	annotations map[string]string,
) (Attachment, error) {
	config := BytesBlob(EmptyConfig, []byte("{}"), nil)
	m := v1.Manifest{
		ArtifactType: artifactType, Config: config.Desc, Annotations: maps.Clone(annotations),
		Subject: &v1.Descriptor{
			MediaType: subject.MediaType,
			Size:      subject.Size,
			Digest:    subject.Digest,
		},
	}
	for _, l := range layers {
		m.Layers = append(m.Layers, l.Desc)
	}
	d, err := NewManifest(m)
	return Attachment{
		Subject:  subject.Digest,
		Manifest: d,
		Blobs:    append([]Blob{config}, layers...),
	}, err
}
