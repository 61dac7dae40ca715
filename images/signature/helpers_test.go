package signature

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"slices"
	"sync"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/kmod/sign/keyfile"
)

// keys of the tests: the Ed25519 and the RSA key never change, so golden files can have their signatures.
var keys = sync.OnceValue(func() map[string]crypto.Signer {
	r, _, err := keyfile.LoadPrivate("testdata/rsa.pem", nil)
	if err != nil {
		panic(err)
	}
	all := map[string]crypto.Signer{"rsa": r, "ed25519": ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))}
	for name, curve := range map[string]elliptic.Curve{"p256": elliptic.P256(), "p384": elliptic.P384(), "other": elliptic.P256(), "p521": elliptic.P521()} {
		if all[name], err = ecdsa.GenerateKey(curve, rand.Reader); err != nil {
			panic(err)
		}
	}
	return all
})

func signerOf(t testing.TB, name string) *KeySigner {
	t.Helper()
	return require.Value(NewKeySigner(keys()[name]))(t)
}

var (
	image = v1.Descriptor{MediaType: types.OCIManifestSchema1, Size: 1234, Digest: oci.HashOf([]byte("image"))}
	index = v1.Descriptor{MediaType: types.OCIImageIndex, Size: 432, Digest: oci.HashOf([]byte("index"))}
	sbom  = Predicate{"https://spdx.dev/Document", json.RawMessage(`{"spdxVersion":"SPDX-2.3","comment":"a < b & c"}`)}
	vex   = Predicate{"https://openvex.dev/ns", json.RawMessage(`{"statements":[]}`)}
)

// request asks for signatures of an image with two attestations.
func request(f Format, attachments ...oci.Attachment) Request {
	return Request{Repository: "registry.example.com/gpu/driver", Tags: []string{"535.261.03-debian12"}, Format: f,
		Subjects: []Subject{{image, attachments, []Predicate{sbom, vex}}}}
}

func sign(t testing.TB, r Request, key string) []oci.Attachment {
	t.Helper()
	return require.Value(Sign(t.Context(), r, signerOf(t, key)))(t)
}

// verify returns the report of the image.
func verify(t testing.TB, attachments []oci.Attachment, names ...string) Report {
	t.Helper()
	var public []crypto.PublicKey
	for _, name := range names {
		public = append(public, keys()[name].Public())
	}
	return require.Value(Verify([]Subject{{image, attachments, nil}}, public))(t)[0]
}

func content(t testing.TB, b oci.Blob) []byte {
	t.Helper()
	return require.Value(oci.ReadBlob(b, b.Desc.Size))(t)
}

func manifest(t testing.TB, a oci.Attachment) *v1.Manifest {
	t.Helper()
	return require.Value(v1.ParseManifest(bytes.NewReader(a.Manifest.Raw)))(t)
}

// changed returns an attachment whose only layer has another content.
func changed(t testing.TB, a oci.Attachment, edit func(string) string) oci.Attachment {
	t.Helper()
	m := manifest(t, a)
	i := slices.IndexFunc(a.Blobs, func(b oci.Blob) bool { return b.Desc.Digest == m.Layers[0].Digest })
	b := oci.BytesBlob(m.Layers[0].MediaType, []byte(edit(string(content(t, a.Blobs[i])))), m.Layers[0].Annotations)
	m.Layers = []v1.Descriptor{b.Desc}
	return rewritten(t, a, m, b)
}

// rewritten returns the attachment with another manifest and these blobs.
func rewritten(t testing.TB, a oci.Attachment, m *v1.Manifest, blobs ...oci.Blob) oci.Attachment {
	t.Helper()
	raw := require.Value(json.Marshal(m))(t)
	a.Manifest = oci.NewDocument(raw, m.MediaType)
	a.Blobs = blobs
	return a
}

// liar is a signer that shows another key than it signs with.
type liar struct {
	*KeySigner
	shown crypto.PublicKey
}

func (l liar) Public() crypto.PublicKey { return l.shown }

// counter counts signatures.
type counter struct {
	*KeySigner
	n int
}

func (c *counter) Sign(ctx context.Context, message []byte) ([]byte, error) {
	c.n++
	return c.KeySigner.Sign(ctx, message)
}
