package signature

import (
	"crypto"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/images/oci"
)

const (
	// bundleMediaType is that of the bundle, of its layer and of its manifest as an artifact.
	bundleMediaType   = "application/vnd.dev.sigstore.bundle.v0.3+json"
	bundleMediaPrefix = "application/vnd.dev.sigstore.bundle" // of all versions

	contentAnnotation         = "dev.sigstore.bundle.content"
	bundlePredicateAnnotation = "dev.sigstore.bundle.predicateType"

	maxBundle = 64 << 20 // an envelope, and the proofs of a transparency log, which are skipped
)

// sigstoreBundle is the JSON form of sigstore's bundle (protobuf-specs, sigstore_bundle.proto): the parts
// that a signature by a key without certificate has.
type sigstoreBundle struct {
	MediaType            string `json:"mediaType"`
	VerificationMaterial struct {
		PublicKey publicKeyHint `json:"publicKey"`
	} `json:"verificationMaterial"`
	Envelope *envelope `json:"dsseEnvelope"`
}

// publicKeyHint helps to choose a key and proves nothing. cosign writes the SHA-256 of the key, in base64.
type publicKeyHint struct {
	Hint base64Text `json:"hint"`
}

// newBundle returns the referrer that holds one statement. Verifiers expect one layer in each.
func newBundle(subject v1.Descriptor, d document, public crypto.PublicKey, signature []byte) (oci.Attachment, error) {
	sum, err := fingerprint(public)
	if err != nil {
		return oci.Attachment{}, err
	}
	e := newEnvelope(d.payload, signature)
	b := sigstoreBundle{MediaType: bundleMediaType, Envelope: &e}
	b.VerificationMaterial.PublicKey.Hint = sum[:]
	raw, err := encode(b)
	if err != nil {
		return oci.Attachment{}, fmt.Errorf("make the bundle with the %s: %w", d.about, err)
	}
	return oci.NewReferrer(subject, bundleMediaType, []oci.Blob{oci.BytesBlob(bundleMediaType, raw, nil)},
		map[string]string{contentAnnotation: "dsse-envelope", bundlePredicateAnnotation: d.predicate})
}

// decodeBundle returns the envelope of a bundle of any version.
func decodeBundle(raw []byte) (envelope, error) {
	// The hint is not read, so its type does not matter: other programs write other text there.
	var b struct {
		MediaType string          `json:"mediaType"`
		Envelope  *envelope       `json:"dsseEnvelope"`
		Message   json.RawMessage `json:"messageSignature"`
	}
	if err := decode(raw, maxBundle, &b); err != nil {
		return envelope{}, fmt.Errorf("the bundle: %w", err)
	}
	switch {
	case !strings.HasPrefix(b.MediaType, bundleMediaPrefix):
		return envelope{}, fmt.Errorf("%.80q is no bundle of sigstore", b.MediaType)
	case b.Envelope == nil && b.Message != nil:
		return envelope{}, errors.New("the bundle signs a file and not a statement, which is no signature of an image")
	case b.Envelope == nil:
		return envelope{}, errors.New("the bundle has no envelope")
	}
	return *b.Envelope, b.Envelope.check()
}
