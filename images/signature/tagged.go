package signature

import (
	"encoding/base64"
	"encoding/json"
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

// newTagged returns an attachment of layers for .sig or .att. Where it is attached, what is under the tag
// already stays. The manifest looks like that of an image, as cosign's does: its config lists the digests of
// the layers.
func newTagged(subject v1.Hash, to storage, layers []oci.Blob) (oci.Attachment, error) {
	a := oci.Attachment{Subject: subject, Tag: oci.ReferrersTag(subject) + string(to)}
	m := v1.Manifest{SchemaVersion: 2, MediaType: types.OCIManifestSchema1}
	cf := v1.ConfigFile{RootFS: v1.RootFS{Type: "layers"}}
	for _, l := range layers {
		m.Layers = append(m.Layers, l.Desc)
		cf.RootFS.DiffIDs = append(cf.RootFS.DiffIDs, l.Desc.Digest)
		cf.History = append(cf.History, v1.History{})
	}
	config, err := json.Marshal(cf)
	if err != nil {
		return a, err
	}
	a.Blobs = append(slices.Clone(layers), oci.BytesBlob(types.OCIConfigJSON, config, nil))
	m.Config = a.Blobs[len(layers)].Desc
	raw, err := json.Marshal(m)
	a.Manifest = oci.Document{Raw: raw, Desc: v1.Descriptor{MediaType: m.MediaType, Size: int64(len(raw)), Digest: oci.HashOf(raw)}}
	return a, err
}
