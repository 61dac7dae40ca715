package supplychain

import (
	"bytes"
	"encoding/json"
	"io"
	"slices"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/signature"
)

// changed are the attachments with one change in each signed text. The digests fit: only the signatures
// do not.
func changed(t *testing.T, all []oci.Attachment) []oci.Attachment {
	t.Helper()
	var result []oci.Attachment
	for _, a := range all {
		var m v1.Manifest
		require.NoError(t, json.Unmarshal(a.Manifest.Raw, &m))
		blobs := []oci.Blob{a.Blobs[indexOf(a.Blobs, m.Config.Digest)]}
		for i, l := range m.Layers {
			r := require.Value(a.Blobs[indexOf(a.Blobs, l.Digest)].Open())(t)
			content := require.Value(io.ReadAll(r))(t)
			require.NoError(t, r.Close())
			blob := oci.BytesBlob(l.MediaType, change(content), l.Annotations)
			m.Layers[i], blobs = blob.Desc, append(blobs, blob)
		}
		a.Blobs = blobs
		result = append(result, withManifest(t, a, m))
	}
	return result
}

// change leaves valid JSON, and in an envelope valid base64, with another meaning.
func change(content []byte) []byte {
	if before, after := []byte(`"optional":null`), []byte(`"optional":{}`); bytes.Contains(content, before) {
		return bytes.Replace(content, before, after, 1)
	}
	payload := []byte(`"payload":"eyJ`) // {" in base64
	return bytes.Replace(content, payload, []byte(`"payload":"eyA`), 1)
}

// moved are the attachments of some subjects as those of others.
func moved(t *testing.T, all []oci.Attachment, from, to []signature.Subject) []oci.Attachment {
	t.Helper()
	var result []oci.Attachment
	for _, a := range all {
		for i := range from {
			if a.Subject != from[i].Descriptor.Digest {
				continue
			}
			a.Subject = to[i].Descriptor.Digest
			switch a.Tag {
			case oci.SignatureTag(from[i].Descriptor.Digest):
				a.Tag = oci.SignatureTag(a.Subject)
			case oci.AttestationTag(from[i].Descriptor.Digest):
				a.Tag = oci.AttestationTag(a.Subject)
			default:
				var m v1.Manifest
				require.NoError(t, json.Unmarshal(a.Manifest.Raw, &m))
				m.Subject = &to[i].Descriptor
				a = withManifest(t, a, m)
			}
			result = append(result, a)
			break
		}
	}
	return result
}

func withManifest(t *testing.T, a oci.Attachment, m v1.Manifest) oci.Attachment {
	t.Helper()
	raw := require.Value(json.Marshal(m))(t)
	desc := a.Manifest.Desc
	desc.Digest, desc.Size = oci.HashOf(raw), int64(len(raw))
	a.Manifest = oci.Document{Raw: raw, Desc: desc}
	return a
}

func indexOf(blobs []oci.Blob, digest v1.Hash) int {
	return slices.IndexFunc(blobs, func(b oci.Blob) bool { return b.Desc.Digest == digest }) // -1: the test panics
}
