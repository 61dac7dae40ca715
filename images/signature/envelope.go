package signature

import (
	"encoding/base64"
	"errors"
	"fmt"

	"github.com/google/go-containerregistry/pkg/v1/types"
)

const (
	// envelopeMediaType is that of the layers of .att.
	envelopeMediaType types.MediaType = "application/vnd.dsse.envelope.v1+json"
	// predicateAnnotation of such a layer has the type of the predicate.
	predicateAnnotation = "predicateType"

	maxStatement          = 32 << 20
	maxEnvelope           = 48 << 20 // a statement in base64, and its signatures
	maxEnvelopeSignatures = 8
)

// envelope is DSSE's: https://github.com/secure-systems-lab/dsse/blob/v1.0.2/envelope.md.
type envelope struct {
	Payload     base64Text          `json:"payload"`
	PayloadType string              `json:"payloadType"`
	Signatures  []envelopeSignature `json:"signatures"`
}

// envelopeSignature has an empty key id, as cosign's has: verifiers compare ids before keys if there is one.
type envelopeSignature struct {
	KeyID string     `json:"keyid"`
	Sig   base64Text `json:"sig"`
}

// base64Text is text in standard base64. DSSE demands that the URL's alphabet is read as well.
type base64Text []byte

// MarshalText returns standard base64.
func (b base64Text) MarshalText() ([]byte, error) {
	return base64.StdEncoding.AppendEncode(nil, b), nil
}

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
	return append(fmt.Appendf(nil, "DSSEv1 %d %s %d ", len(payloadType), payloadType, len(payload)), payload...)
}

func newEnvelope(statement, signature []byte) envelope {
	return envelope{statement, statementType, []envelopeSignature{{Sig: signature}}}
}

func decodeEnvelope(raw []byte) (envelope, error) {
	var e envelope
	if err := decode(raw, maxEnvelope, &e); err != nil {
		return e, fmt.Errorf("the envelope: %w", err)
	}
	return e, e.check()
}

func (e envelope) check() error {
	switch {
	case e.PayloadType != statementType:
		return fmt.Errorf("the envelope holds %.80q and no statement of in-toto", e.PayloadType)
	case len(e.Signatures) == 0:
		return errors.New("the envelope has no signature")
	case len(e.Signatures) > maxEnvelopeSignatures:
		return fmt.Errorf("the envelope has %d signatures, more than %d", len(e.Signatures), maxEnvelopeSignatures)
	}
	return nil
}
