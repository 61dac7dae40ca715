package signature

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/driver-container/driver-container/images/oci"
)

// newLayer returns the layer of .sig or .att that holds a document.
func newLayer(d document, signature []byte) (oci.Blob, error) {
	if d.storage == sigTag {
		return oci.BytesBlob(payloadMediaType, d.payload, map[string]string{signatureAnnotation: base64.StdEncoding.EncodeToString(signature)}), nil
	}
	raw, err := encode(newEnvelope(d.payload, signature))
	if err != nil {
		return oci.Blob{}, fmt.Errorf("make the envelope of the %s: %w", d.about, err)
	}
	return oci.BytesBlob(envelopeMediaType, raw, map[string]string{signatureAnnotation: "", predicateAnnotation: d.predicate}), nil
}

// extend returns .sig or .att with further layers. The manifest looks like that of an image, as cosign's
// does: its config lists the digests of the layers.
func extend(s Subject, to storage, more []oci.Blob) (oci.Attachment, error) {
	digest := s.Descriptor.Digest
	a := oci.Attachment{Subject: digest, Tag: oci.ReferrersTag(digest) + string(to)}
	m := v1.Manifest{SchemaVersion: 2, MediaType: types.OCIManifestSchema1}
	if i := slices.IndexFunc(s.Attachments, func(old oci.Attachment) bool { return old.Tag == a.Tag }); i >= 0 {
		old, err := parseManifest(s.Attachments[i].Manifest)
		if err != nil {
			return a, fmt.Errorf("add to %s: %w: delete this tag, then sign again", a.Tag, err)
		}
		m.Layers, m.Annotations = old.Layers, old.Annotations
		for _, l := range old.Layers {
			j := slices.IndexFunc(s.Attachments[i].Blobs, func(b oci.Blob) bool { return b.Desc.Digest == l.Digest })
			if j < 0 {
				return a, fmt.Errorf("add to %s: its layer %s is missing", a.Tag, l.Digest)
			}
			a.Blobs = appendOnce(a.Blobs, s.Attachments[i].Blobs[j])
		}
	}
	for _, b := range more {
		m.Layers = append(m.Layers, b.Desc)
		a.Blobs = appendOnce(a.Blobs, b)
	}
	if len(m.Layers) > maxDocuments {
		return a, fmt.Errorf("add to %s: it would have %d layers, and at most %d are read", a.Tag, len(m.Layers), maxDocuments)
	}
	cf := v1.ConfigFile{RootFS: v1.RootFS{Type: "layers"}}
	for _, l := range m.Layers {
		cf.RootFS.DiffIDs = append(cf.RootFS.DiffIDs, l.Digest)
		cf.History = append(cf.History, v1.History{})
	}
	config, err := json.Marshal(cf)
	if err != nil {
		return a, err
	}
	b := oci.BytesBlob(types.OCIConfigJSON, config, nil)
	m.Config = b.Desc
	a.Blobs = append(a.Blobs, b)
	raw, err := json.Marshal(m)
	if err == nil && len(raw) > oci.MaxManifest {
		err = errors.New("its manifest becomes too large")
	}
	if err != nil {
		return a, fmt.Errorf("add to %s: %w", a.Tag, err)
	}
	a.Manifest = oci.Document{Raw: raw, Desc: v1.Descriptor{MediaType: m.MediaType, Size: int64(len(raw)), Digest: oci.HashOf(raw)}}
	return a, nil
}

// appendOnce adds a blob that is not there yet: two signatures over one payload share a blob.
func appendOnce(all []oci.Blob, b oci.Blob) []oci.Blob {
	if slices.ContainsFunc(all, func(have oci.Blob) bool { return have.Desc.Digest == b.Desc.Digest }) {
		return all
	}
	return append(all, b)
}
