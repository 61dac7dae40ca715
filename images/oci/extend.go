package oci

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/images/strictjson"
)

// Extend returns an attachment with the layers of a manifest that has its tag already, followed by
// those layers of a that the manifest lacks: what is there stays. Layers are the same if type,
// content and annotations are. config reads the existing config, whose diff IDs get those of the
// new layers, as cosign does. The blobs of the result are only the new ones. If there is nothing to
// add, the result has the existing manifest.
func (a Attachment) Extend(
	existing []byte,
	config func(v1.Descriptor) ([]byte, error),
) (Attachment, error) {
	out, err := a.extend(existing, config)
	if err != nil {
		return Attachment{}, fmt.Errorf("extend %s: %w", a.Tag, err)
	}
	return out, nil
}

func (a Attachment) extend(existing []byte, config func(v1.Descriptor) ([]byte, error)) (Attachment, error) {
	if index, err := kindOf(existing); err != nil || index {
		return a, errors.Join(errors.New("what is there is no manifest of signatures or attestations"), err)
	}
	m, err := parseGeneric(existing)
	if err != nil {
		return a, err
	}
	mine, err := parseGeneric(a.Manifest.Raw)
	if err != nil {
		return a, err
	}
	out := Attachment{Subject: a.Subject, Tag: a.Tag, Manifest: NewDocument(existing, mediaTypeOf(existing))}
	for _, l := range mine.Layers {
		if slices.ContainsFunc(m.Layers, func(o v1.Descriptor) bool {
			return o.Digest == l.Digest && o.MediaType == l.MediaType && maps.Equal(o.Annotations, l.Annotations)
		}) {
			continue
		}
		i := slices.IndexFunc(a.Blobs, func(b Blob) bool { return b.Desc.Digest == l.Digest })
		if i < 0 {
			return a, fmt.Errorf("its layer %s is missing", l.Digest)
		}
		m.Layers = append(m.Layers, l)
		out.Blobs = append(out.Blobs, a.Blobs[i])
	}
	if len(out.Blobs) > 0 {
		if m.Config.MediaType.IsConfig() {
			b, err := addDiffIDs(m.Config, config, out.Blobs)
			if err != nil {
				return a, err
			}
			m.Config = b.Desc
			out.Blobs = append(out.Blobs, b)
		}
		both := map[string]string{}
		maps.Copy(both, mine.Annotations)
		maps.Copy(both, m.Annotations)
		m.Annotations = both
		raw, err := json.Marshal(m)
		if err != nil {
			return a, err
		}
		out.Manifest = NewDocument(raw, out.Manifest.Desc.MediaType)
	}
	if len(out.Manifest.Raw) > MaxManifest {
		return a, fmt.Errorf("the manifest would have %d layers and more than %d bytes", len(m.Layers), MaxManifest)
	}
	out.Manifest.Desc.ArtifactType = m.ArtifactType
	out.Manifest.Desc.Annotations = m.Annotations
	return out, nil
}

// addDiffIDs returns a config that lists further layers, and keeps every other field. They are not
// compressed: the diff ID is the digest.
func addDiffIDs(
	d v1.Descriptor,
	config func(v1.Descriptor) ([]byte, error),
	layers []Blob,
) (Blob, error) {
	raw, err := config(d)
	if err != nil {
		return Blob{}, err
	}
	doc, err := strictjson.Decode[map[string]json.RawMessage](raw)
	rootfs := v1.RootFS{Type: "layers"}
	if err == nil && doc["rootfs"] != nil {
		rootfs, err = strictjson.Decode[v1.RootFS](doc["rootfs"])
	}
	if err != nil || doc == nil {
		return Blob{}, errors.Join(errors.New("its config is malformed"), err)
	}
	for _, b := range layers {
		rootfs.DiffIDs = append(rootfs.DiffIDs, b.Desc.Digest)
	}
	doc["rootfs"], err = json.Marshal(rootfs)
	if err != nil {
		return Blob{}, err
	}
	raw, err = json.Marshal(doc)
	return BytesBlob(d.MediaType, raw, d.Annotations), err
}
