package oci

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// Extend returns an attachment with the layers of a manifest that has its tag already, followed by those
// layers of a that the manifest lacks: what is there stays. Layers are the same if type, content and
// annotations are. config reads the existing config, whose diff IDs get those of the new layers, as cosign
// does. The blobs of the result are only the new ones. If there is nothing to add, the result has the
// existing manifest.
func (a Attachment) Extend(existing Manifest, config func(v1.Descriptor) ([]byte, error)) (Attachment, error) {
	fail := func(err error) (Attachment, error) { return Attachment{}, fmt.Errorf("extend %s: %w", a.Tag, err) }
	if index, err := kindOf(existing.Raw); err != nil || index {
		return fail(errors.Join(errors.New("what is there is no manifest of signatures or attestations"), err))
	}
	m, err := parseGeneric(existing.Raw)
	if err != nil {
		return fail(err)
	}
	mine, err := parseGeneric(a.Manifest.Raw)
	if err != nil {
		return fail(err)
	}
	out := Attachment{Subject: a.Subject, Tag: a.Tag}
	var ids []string
	for _, l := range mine.Layers {
		if slices.ContainsFunc(m.Layers, func(o v1.Descriptor) bool { return sameLayer(o, l) }) {
			continue
		}
		i := slices.IndexFunc(a.Blobs, func(b Blob) bool { return b.Desc.Digest == l.Digest })
		if i < 0 {
			return fail(fmt.Errorf("its layer %s is missing", l.Digest))
		}
		m.Layers, ids = append(m.Layers, l), append(ids, l.Digest.String()) // not compressed: the diff ID is the digest
		out.Blobs = append(out.Blobs, a.Blobs[i])
	}
	if len(ids) > 0 && isImageConfig(m.Config.MediaType) {
		raw, err := config(m.Config)
		if err == nil {
			raw, err = addDiffIDs(raw, ids)
		}
		if err != nil {
			return fail(err)
		}
		b := BytesBlob(m.Config.MediaType, raw, m.Config.Annotations)
		m.Config, out.Blobs = b.Desc, append(out.Blobs, b)
	}
	raw := existing.Raw
	if len(ids) > 0 {
		both := maps.Clone(mine.Annotations)
		if both == nil {
			both = map[string]string{}
		}
		maps.Copy(both, m.Annotations)
		m.Annotations = both
		if raw, err = json.Marshal(m); err != nil {
			return fail(err)
		}
	}
	if len(raw) > MaxManifest {
		return fail(fmt.Errorf("the manifest would have %d layers and more than %d bytes", len(m.Layers), MaxManifest))
	}
	out.Manifest = Document{Raw: raw, Desc: v1.Descriptor{
		MediaType: mediaTypeOf(raw, m.MediaType), Size: int64(len(raw)), Digest: HashOf(raw), ArtifactType: m.ArtifactType, Annotations: m.Annotations}}
	return out, nil
}

func sameLayer(a, b v1.Descriptor) bool {
	return a.Digest == b.Digest && a.MediaType == b.MediaType && maps.Equal(a.Annotations, b.Annotations)
}

// addDiffIDs adds to rootfs.diff_ids of an image config, and keeps every other field.
func addDiffIDs(raw []byte, ids []string) ([]byte, error) {
	var doc, rootfs map[string]json.RawMessage
	var have []string
	if err := json.Unmarshal(raw, &doc); err != nil || doc == nil {
		return nil, errors.Join(errors.New("its config is malformed"), err)
	}
	if err := unmarshalField(doc["rootfs"], &rootfs); err != nil {
		return nil, fmt.Errorf("its config is malformed: rootfs: %w", err)
	}
	if err := unmarshalField(rootfs["diff_ids"], &have); err != nil {
		return nil, fmt.Errorf("its config is malformed: diff_ids: %w", err)
	}
	if rootfs == nil {
		rootfs = map[string]json.RawMessage{"type": json.RawMessage(`"layers"`)}
	}
	var err error
	if rootfs["diff_ids"], err = json.Marshal(append(have, ids...)); err != nil {
		return nil, err
	}
	if doc["rootfs"], err = json.Marshal(rootfs); err != nil {
		return nil, err
	}
	return json.Marshal(doc)
}

// unmarshalField reads a field that may be missing.
func unmarshalField(raw json.RawMessage, to any) error {
	if raw == nil {
		return nil
	}
	return json.Unmarshal(raw, to)
}

// ReadBlob reads a blob of at most limit bytes and verifies it.
func ReadBlob(b Blob, limit int64) (_ []byte, err error) {
	if b.Desc.Size > limit {
		return nil, fmt.Errorf("blob %s has %d bytes; at most %d are read", b.Desc.Digest, b.Desc.Size, limit)
	}
	r, err := b.Open()
	if err != nil {
		return nil, err
	}
	v := Verify(r, b.Desc, "blob")
	defer func() { err = errors.Join(err, v.Close()) }()
	return io.ReadAll(v)
}
