package oci

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/driver-container/driver-container/distros/failure"
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
) (out Attachment, err error) {
	defer failure.Wrap(&err, "extend %s", a.Tag)
	m, err := parseGeneric(existing)
	if err != nil {
		return out, err
	}
	mine, err := parseGeneric(a.Manifest.Raw)
	if err != nil {
		return out, err
	}
	manifest := NewDocument(existing, cmp.Or(m.MediaType, types.OCIManifestSchema1))
	out = Attachment{Subject: a.Subject, Tag: a.Tag, Manifest: manifest}
	for _, l := range mine.Layers {
		if slices.ContainsFunc(m.Layers, func(there v1.Descriptor) bool {
			return there.Digest == l.Digest && there.MediaType == l.MediaType &&
				maps.Equal(there.Annotations, l.Annotations)
		}) {
			continue
		}
		i := slices.IndexFunc(a.Blobs, func(b Blob) bool { return b.Desc.Digest == l.Digest })
		if i < 0 {
			return out, fmt.Errorf("its layer %s is missing", l.Digest)
		}
		m.Layers = append(m.Layers, l)
		out.Blobs = append(out.Blobs, a.Blobs[i])
	}
	if len(out.Blobs) > 0 {
		err := out.rewrite(m, mine.Annotations, config)
		if err != nil {
			return out, err
		}
	}
	out.Manifest.Desc.ArtifactType = m.ArtifactType
	out.Manifest.Desc.Annotations = m.Annotations
	return out, nil
}

// rewrite makes the manifest of layers that were added. Annotations that are there stay.
func (a *Attachment) rewrite(
	m *v1.Manifest,
	annotations map[string]string,
	config func(v1.Descriptor) ([]byte, error),
) error {
	if m.Config.MediaType.IsConfig() {
		b, err := addDiffIDs(m.Config, config, a.Blobs)
		if err != nil {
			return err
		}
		m.Config = b.Desc
		a.Blobs = append(a.Blobs, b)
	}
	both := maps.Clone(annotations)
	if both == nil {
		both = map[string]string{}
	}
	maps.Copy(both, m.Annotations)
	m.Annotations = both
	raw, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if len(raw) > MaxManifest {
		return fmt.Errorf(
			"the manifest would have %d layers and more than %d bytes", len(m.Layers), MaxManifest,
		)
	}
	a.Manifest = NewDocument(raw, a.Manifest.Desc.MediaType)
	return nil
}

// addDiffIDs returns a config that lists further layers, and keeps every other field. They are not
// compressed: the diff ID is the digest.
func addDiffIDs(
	d v1.Descriptor,
	config func(v1.Descriptor) ([]byte, error),
	layers []Blob,
) (b Blob, err error) {
	raw, err := config(d)
	if err != nil {
		return b, err
	}
	defer failure.Wrap(&err, "its config is malformed")
	doc, err := strictjson.Decode[map[string]json.RawMessage](raw)
	if err != nil {
		return b, err
	}
	rootfs := v1.RootFS{Type: "layers"}
	if doc["rootfs"] != nil {
		rootfs, err = strictjson.Decode[v1.RootFS](doc["rootfs"])
	}
	if err != nil || doc == nil {
		return b, errors.Join(errors.New("it is no object"), err)
	}
	for _, b := range layers {
		rootfs.DiffIDs = append(rootfs.DiffIDs, b.Desc.Digest)
	}
	doc["rootfs"], err = json.Marshal(rootfs)
	if err != nil {
		return b, err
	}
	raw, err = json.Marshal(doc)
	return BytesBlob(d.MediaType, raw, d.Annotations), err
}
