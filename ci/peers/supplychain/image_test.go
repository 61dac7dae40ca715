package supplychain

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/driver-container/driver-container/ci/testkit/ocitest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/images/oci"
)

// pushImage pushes a small image, HOST/PATH:TAG, and returns HOST/PATH@DIGEST. Other names in it give another
// image.
func pushImage(t *testing.T, to string, names ...string) string {
	t.Helper()
	return push(t, to, ocitest.Image(t, "amd64", 1000, append(names, "layer")...))
}

func push(t *testing.T, to string, img v1.Image) string {
	t.Helper()
	ref := require.Value(name.ParseReference(to, name.Insecure))(t)
	require.NoError(t, remote.Write(ref, img, remote.WithContext(t.Context())))
	return ref.Context().Name() + "@" + ocitest.Digest(t, img).String()
}

// handKey is a private key of this test, and the file of the public one.
type handKey struct {
	private *ecdsa.PrivateKey
	public  string
}

func newHandKey(t *testing.T) handKey {
	t.Helper()
	key := require.Value(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	return handKey{key, keyFile(t, "PUBLIC KEY", require.Value(x509.MarshalPKIXPublicKey(&key.PublicKey))(t))}
}

// sign makes the tag .sig of an image, HOST/PATH@DIGEST, by hand, so that a judge can be looked at without
// the project's own signatures. The signature calls the image by each of these names.
func (k handKey) sign(t *testing.T, image string, identities ...string) {
	t.Helper()
	ref := require.Value(name.NewDigest(image, name.Insecure))(t)
	subject := require.Value(v1.NewHash(ref.DigestStr()))(t)
	sig := mutate.MediaType(mutate.ConfigMediaType(empty.Image, types.OCIConfigJSON), types.OCIManifestSchema1)
	for _, identity := range identities {
		payload := fmt.Appendf(nil, `{"critical":{"identity":{"docker-reference":%q},"image":{"docker-manifest-digest":%q},`+
			`"type":"cosign container image signature"},"optional":null}`, identity, subject)
		sum := sha256.Sum256(payload)
		raw := require.Value(ecdsa.SignASN1(rand.Reader, k.private, sum[:]))(t)
		sig = require.Value(mutate.Append(sig, mutate.Addendum{
			Layer:       static.NewLayer(payload, "application/vnd.dev.cosign.simplesigning.v1+json"),
			Annotations: map[string]string{"dev.cosignproject.cosign/signature": base64.StdEncoding.EncodeToString(raw)},
		}))(t)
	}
	push(t, ref.Context().Tag(oci.SignatureTag(subject)).Name(), sig)
}
