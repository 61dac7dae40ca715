package sign

import (
	"encoding/asn1"
	"fmt"
	"slices"

	"crypto/x509/pkix"
)

// maxSignature is the limit of the kernel's decoder, in bytes (lib/asn1_decoder.c).
const maxSignature = 65535

// The parts of a PKCS#7 signature (RFC 2315) that kernels read. What follows the last field of a
// part would be in More.
type (
	message struct {
		Type   asn1.ObjectIdentifier
		Signed signedData `asn1:"explicit,tag:0"`
	}
	signedData struct {
		Version      int
		Digests      []pkix.AlgorithmIdentifier `asn1:"set"`
		Content      contentInfo
		Certificates asn1.RawValue   `asn1:"optional,tag:0"`
		Revocations  asn1.RawValue   `asn1:"optional,tag:1"`
		Signers      []asn1.RawValue `asn1:"set"`
		More         asn1.RawValue   `asn1:"optional"`
	}
	contentInfo struct {
		Type    asn1.ObjectIdentifier
		Content asn1.RawValue `asn1:"optional"` // nothing if it is beside the signature
	}
	// signerInfo is one signature of a message.
	signerInfo struct {
		Version    int
		Key        asn1.RawValue // issuerSerial, or [0] with the key's identifier
		Digest     pkix.AlgorithmIdentifier
		Attributes asn1.RawValue `asn1:"optional,tag:0"`
		Algorithm  pkix.AlgorithmIdentifier
		Signature  []byte
		Unsigned   asn1.RawValue `asn1:"optional,tag:1"`
		More       asn1.RawValue `asn1:"optional"`
	}
	issuerSerial struct {
		Issuer asn1.RawValue
		Serial asn1.RawValue
		More   asn1.RawValue `asn1:"optional"`
	}
)

// name returns DER of the issuer's name and the number's bytes; nil if the key is named by its
// identifier.
func (s signerInfo) name() (issuer, serial []byte) {
	var name issuerSerial
	_, err := asn1.Unmarshal(s.Key.FullBytes, &name)
	if err != nil {
		return nil, nil
	}
	return name.Issuer.FullBytes, name.Serial.Bytes
}

// keyID returns the identifier of the key; nil if the key is named by its issuer.
func (s signerInfo) keyID() []byte {
	if s.Key.Class != asn1.ClassContextSpecific {
		return nil
	}
	return s.Key.Bytes
}

// hash returns the hash that the signature was made with; false when the hash or the kind of key is
// unknown.
func (s signerInfo) hash() (algorithm, bool) {
	a, known := algorithmOf(s.Digest.Algorithm)
	return a, known && s.kind() != s.Algorithm.Algorithm.String()
}

func algorithmOf(digest asn1.ObjectIdentifier) (a algorithm, known bool) {
	i := slices.IndexFunc(algorithms, func(a algorithm) bool { return a.oid.Equal(digest) })
	if i < 0 {
		return a, false
	}
	return algorithms[i], true
}

// kind returns the algorithm of the key: "rsa", "ecdsa", or its object identifier.
func (s signerInfo) kind() string {
	kind := s.Algorithm.Algorithm
	if kind.Equal(oidRSA) {
		return "rsa"
	}
	if slices.ContainsFunc(algorithms, func(a algorithm) bool { return a.ecdsa.Equal(kind) }) {
		return "ecdsa"
	}
	return kind.String()
}

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrMalformed, fmt.Sprintf(format, args...))
}

// decode reads a SignedData as the kernel's parser does (crypto/asymmetric_keys/pkcs7.asn1): it
// ignores bytes after it and skips embedded certificates and revocation lists. It accepts only DER.
// Kernels also accept BER, which no program that signs modules writes.
func decode(der []byte) ([]signerInfo, error) {
	if len(der) > maxSignature {
		return nil, malformed("%d bytes, kernels take %d", len(der), maxSignature)
	}
	var m message
	_, err := asn1.Unmarshal(der, &m)
	if err != nil {
		return nil, malformed("it is not PKCS#7 with SignedData in DER: %v", err)
	}
	data := m.Signed
	switch {
	case !m.Type.Equal(oidSignedData):
		return nil, malformed("it is PKCS#7 of type %s, not SignedData", m.Type)
	case data.Version != 1 && data.Version != 3:
		return nil, malformed("SignedData of version %d", data.Version)
	case !data.Content.Type.Equal(oidData):
		return nil, malformed("it signs content of type %s, not data", data.Content.Type)
	case data.Content.Content.FullBytes != nil:
		return nil, malformed("it has the signed content inside, not beside it")
	case data.More.FullBytes != nil:
		return nil, malformed("something follows its list of signers")
	}
	var out []signerInfo
	for _, raw := range data.Signers {
		s, err := decodeSigner(raw.FullBytes, data.Version)
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

func decodeSigner(der []byte, version int) (s signerInfo, err error) {
	_, err = asn1.Unmarshal(der, &s)
	if err != nil || s.More.FullBytes != nil {
		return s, malformed("its signer is broken")
	}
	if s.Version != version || (version == 1) != (s.Key.Tag == asn1.TagSequence) {
		return s, malformed("SignerInfo of version %d in SignedData of version %d", s.Version, version)
	}
	if version == 3 {
		if s.Key.Class != asn1.ClassContextSpecific || s.Key.Tag != 0 {
			return s, malformed("its signer is broken")
		}
		return s, nil
	}
	var name issuerSerial
	_, err = asn1.Unmarshal(s.Key.FullBytes, &name)
	if err != nil || name.More.FullBytes != nil || name.Serial.Tag != asn1.TagInteger ||
		name.Issuer.Tag != asn1.TagSequence {
		return s, malformed("its signer is broken")
	}
	return s, nil
}
