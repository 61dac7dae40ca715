package oci

import (
	"bytes"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/require"
)

func TestNewReferrer(t *testing.T) {
	subject := v1.Descriptor{MediaType: "application/vnd.oci.image.index.v1+json", Size: 3, Digest: HashOf([]byte("top")), Platform: &v1.Platform{OS: "linux"}}
	layer := BytesBlob("application/spdx+json", []byte("document"), map[string]string{"a": "b"})
	a := require.Value(NewReferrer(subject, "application/spdx+json", []Blob{layer}, map[string]string{"c": "d"}))(t)
	m := require.Value(v1.ParseManifest(bytes.NewReader(a.Manifest.Raw)))(t)
	assert.Equal(t, subject.Digest, m.Subject.Digest)
	assert.Equal(t, nil, m.Subject.Platform)
	assert.Equal(t, "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a", m.Config.Digest.String())
	assert.Equal(t, "b", m.Layers[0].Annotations["a"])
	assert.Equal(t, HashOf(a.Manifest.Raw), a.Manifest.Desc.Digest)
	assert.Equal(t, 2, len(a.Blobs))
}

func TestIsAttachmentTag(t *testing.T) {
	h := HashOf(nil)
	for _, tag := range []string{SignatureTag(h), AttestationTag(h), ReferrersTag(h)} {
		assert.Equalf(t, true, IsAttachmentTag(tag), "tag %s", tag)
	}
	for _, tag := range []string{"535.261.03-debian12", "sha256-", "sha256-" + strings.Repeat("g", 64), h.Hex, ReferrersTag(h) + ".sbom"} {
		assert.Equalf(t, false, IsAttachmentTag(tag), "tag %s", tag)
	}
}
