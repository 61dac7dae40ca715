package signature

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	strict "github.com/go-json-experiment/json"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/driver-container/driver-container/images/oci"
)

// What documents and their layers are called. A layer of .sig or .att has the annotation
// signatureAnnotation: in .sig it is the signature over the layer's bytes, in base64.
const (
	payloadMediaType  types.MediaType = "application/vnd.dev.cosign.simplesigning.v1+json"
	envelopeMediaType types.MediaType = "application/vnd.dsse.envelope.v1+json"
	// bundleMediaType is that of the bundle, of its layer and of its manifest as an artifact.
	bundleMediaType   = "application/vnd.dev.sigstore.bundle.v0.3+json"
	bundleMediaPrefix = "application/vnd.dev.sigstore.bundle" // of all versions

	signatureAnnotation       = "dev.cosignproject.cosign/signature"
	predicateAnnotation       = "predicateType" // of a layer of .att
	contentAnnotation         = "dev.sigstore.bundle.content"
	bundlePredicateAnnotation = "dev.sigstore.bundle.predicateType"

	payloadType   = "cosign container image signature"
	statementType = "application/vnd.in-toto+json" // payload type of the envelope
	statementV1   = "https://in-toto.io/Statement/v1"
	statementV01  = "https://in-toto.io/Statement/v0.1" // cosign's attestations have it
	// signPredicate is the type of the statement that is a signature, with an empty predicate.
	signPredicate = "https://sigstore.dev/cosign/sign/v1"
)

// Bounds of documents, in bytes.
const (
	maxPayload   = 64 << 10
	maxStatement = 32 << 20
	maxEnvelope  = 48 << 20 // a statement in base64, and its signatures
	maxBundle    = 64 << 20 // an envelope, and the proofs of a transparency log, which are skipped

	maxEnvelopeSignatures = 8 // each is tried with each key
)

// payload is what .sig signs: containers/image's "simple signing" format, as cosign fills it
// (sigstore/pkg/signature/payload). The order of the fields is cosign's, so the bytes are equal
// too.
type payload struct {
	Critical struct {
		Identity struct {
			DockerReference string `json:"docker-reference"`
		} `json:"identity"`
		Image struct {
			DockerManifestDigest string `json:"docker-manifest-digest"`
		} `json:"image"`
		Type string `json:"type"`
	} `json:"critical"`
	Optional map[string]any `json:"optional"`
}

func encodePayload(identity string, digest v1.Hash) ([]byte, error) {
	var p payload
	p.Critical.Identity.DockerReference = identity
	p.Critical.Image.DockerManifestDigest = digest.String()
	p.Critical.Type = payloadType
	return oci.EncodeJSON(p, "")
}

func decodePayload(raw []byte) (p payload, err error) {
	err = decode(raw, maxPayload, &p)
	if err != nil {
		return p, err
	}
	if p.Critical.Type != payloadType {
		return p, fmt.Errorf("it has the type %.80q and is no signature of cosign", p.Critical.Type)
	}
	return p, nil
}

// statement is in-toto's attestation,
// https://github.com/in-toto/attestation/blob/main/spec/v1/statement.md.
type statement struct {
	Type          string             `json:"_type"`
	Subject       []statementSubject `json:"subject"`
	PredicateType string             `json:"predicateType"`
	Predicate     json.RawMessage    `json:"predicate"`
}

// statementSubject has no name, because the digest is the same in a mirror and the name is not.
type statementSubject struct {
	Digest map[string]string `json:"digest"`
}

func encodeStatement(digest v1.Hash, p Predicate) ([]byte, error) {
	subject := statementSubject{map[string]string{digest.Algorithm: digest.Hex}}
	raw, err := oci.EncodeJSON(
		statement{statementV1, []statementSubject{subject}, p.Type, p.Body}, "",
	)
	if err != nil {
		return nil, err
	}
	if len(raw) > maxStatement {
		return nil, fmt.Errorf(
			"the statement has %d bytes: verifiers here read at most %d", len(raw), maxStatement,
		)
	}
	return raw, nil
}

func decodeStatement(raw []byte) (s statement, err error) {
	err = decode(raw, maxStatement, &s)
	if err != nil {
		return s, err
	}
	if s.Type != statementV1 && s.Type != statementV01 {
		return s, fmt.Errorf(
			"the statement has the type %.80q: known are %s and %s", s.Type, statementV1, statementV01,
		)
	}
	if s.PredicateType == "" {
		return s, errors.New("the statement has no type of predicate")
	}
	return s, nil
}

// envelope is DSSE's: https://github.com/secure-systems-lab/dsse/blob/v1.0.2/envelope.md.
type envelope struct {
	Payload     base64Text          `json:"payload"`
	PayloadType string              `json:"payloadType"`
	Signatures  []envelopeSignature `json:"signatures"`
}

// envelopeSignature has an empty key id, as cosign's has: verifiers compare ids before keys if
// there is one.
type envelopeSignature struct {
	KeyID string     `json:"keyid"`
	Sig   base64Text `json:"sig"`
}

// base64Text is text in standard base64. DSSE demands that the URL's alphabet is read as well.
type base64Text []byte

// UnmarshalText reads both alphabets.
func (b *base64Text) UnmarshalText(text []byte) error {
	raw, err := base64.StdEncoding.AppendDecode(nil, text)
	if err != nil {
		raw, err = base64.URLEncoding.AppendDecode(nil, text)
	}
	*b = raw
	return err
}

// preAuthEncoding returns what a signature of an envelope is over (DSSE's PAE).
func preAuthEncoding(payloadType string, payload []byte) []byte {
	return append(
		fmt.Appendf(nil, "DSSEv1 %d %s %d ", len(payloadType), payloadType, len(payload)),
		payload...)
}

// sigstoreBundle is the JSON form of sigstore's bundle (protobuf-specs, sigstore_bundle.proto): the
// parts that a signature by a key without certificate has. The hint helps to choose a key and
// proves nothing: cosign writes the SHA-256 of the key, in base64.
type sigstoreBundle struct {
	MediaType            string `json:"mediaType"`
	VerificationMaterial struct {
		PublicKey struct {
			Hint []byte `json:"hint"`
		} `json:"publicKey"`
	} `json:"verificationMaterial"`
	Envelope *envelope `json:"dsseEnvelope"`
}

// decodeEnvelope reads a layer of .att, or a bundle of any version.
func decodeEnvelope(raw []byte, in storage) (e envelope, err error) {
	if in == bundle {
		var b struct {
			MediaType string    `json:"mediaType"`
			Envelope  *envelope `json:"dsseEnvelope"`
		}
		if err := decode(raw, maxBundle, &b); err != nil {
			return e, err
		}
		if !strings.HasPrefix(b.MediaType, bundleMediaPrefix) || b.Envelope == nil {
			return e, fmt.Errorf(
				"%.80q is no bundle of sigstore with an envelope, which a signature of an image has",
				b.MediaType,
			)
		}
		e = *b.Envelope
	} else if err := decode(raw, maxEnvelope, &e); err != nil {
		return e, err
	}
	if e.PayloadType != statementType {
		return e, fmt.Errorf("the envelope holds %.80q and no statement of in-toto", e.PayloadType)
	}
	if n := len(e.Signatures); n == 0 || n > maxEnvelopeSignatures {
		return e, fmt.Errorf(
			"the envelope has %d signatures, not 1 to %d",
			n,
			maxEnvelopeSignatures,
		)
	}
	return e, nil
}

// decode reads one JSON value of at most limit bytes and nothing behind it. It reads as the
// standard says and encoding/json does not: names have one spelling and occur once. Else two
// readers could take what is signed for two things.
func decode(raw []byte, limit int, value any) error {
	if len(raw) > limit {
		return fmt.Errorf("it has %d bytes, more than %d", len(raw), limit)
	}
	return strict.Unmarshal(raw, value)
}
