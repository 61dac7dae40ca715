package bundle_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/bundletest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/images/bundle"
	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/registry"
	"github.com/driver-container/driver-container/images/signature"
)

// TestSiteKey signs what is imported with a key of the site, and signs nothing twice. What belonged to the
// images stays.
func TestSiteKey(t *testing.T) {
	t.Parallel()
	key := require.Value(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	artifacts := bundletest.Artifacts(t)
	b := bundletest.Open(t, bundletest.Bytes(t, bundletest.Options(t), artifacts))
	for _, referrers := range []bool{true, false} {
		s := newServer(t, referrers)
		c := client(t)
		o := bundle.ImportOptions{To: s.repository(), Sign: require.Value(signature.NewKeySigner(key))(t)}
		result := require.Value(b.Import(t.Context(), c, o))(t)
		assert.Equal(t, 6, result.Signed) // an index of two images, an image, a chart, a base
		puts := s.puts.Load()
		result = require.Value(b.Import(t.Context(), c, o))(t)
		assert.Equal(t, 0, result.Signed)
		assert.Equal(t, puts, s.puts.Load())
		layers := map[v1.Hash]bool{}
		for _, a := range require.Value(c.Attachments(t.Context(), s.repository()+":535-debian12"))(t) {
			for _, l := range a.Blobs {
				layers[l.Desc.Digest] = true
			}
		}
		for _, a := range artifacts[0].Attachments {
			for _, l := range a.Blobs {
				assert.Equalf(t, true, layers[l.Desc.Digest], "%s of %s stays", l.Desc.Digest, a.Manifest.Desc.ArtifactType)
			}
		}
		for _, ref := range []string{s.repository() + ":535-debian12", s.repository() + "/charts/nvidia-driver:0.2.0"} {
			verified(t, c, ref, key.Public())
		}
	}
}

func verified(t *testing.T, c *registry.Client, ref string, key crypto.PublicKey) {
	t.Helper()
	content := require.Value(oci.Collect(require.Value(c.Open(t.Context(), ref, registry.OpenOptions{}))(t).Artifact))(t)
	attachments := require.Value(c.Attachments(t.Context(), ref))(t)
	for _, d := range content.Documents {
		subject := signature.Subject{Descriptor: d.Desc}
		for _, a := range attachments {
			if a.Subject == d.Desc.Digest {
				subject.Attachments = append(subject.Attachments, a)
			}
		}
		reports := require.Value(signature.Verify([]signature.Subject{subject}, []crypto.PublicKey{key}))(t)
		require.NoError(t, reports[0].Err())
	}
}
