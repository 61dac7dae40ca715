package sign

import (
	goasn1 "encoding/asn1"
	"fmt"
	"slices"

	"golang.org/x/crypto/cryptobyte"
	"golang.org/x/crypto/cryptobyte/asn1"
)

// maxSignature is the limit of the kernel's decoder, in bytes (lib/asn1_decoder.c).
const maxSignature = 65535

// signerInfo is one signature of a message.
type signerInfo struct {
	// DER of the name, and the number's bytes; nil when the key is named by its identifier
	issuer, serial    []byte
	keyID             []byte
	digest, algorithm goasn1.ObjectIdentifier
	attributes        bool
	signature         []byte
}

// hash returns the hash that the signature was made with; false when the hash or the kind of key is
// unknown.
func (s signerInfo) hash() (algorithm, bool) {
	i := slices.IndexFunc(algorithms, func(a algorithm) bool { return a.oid.Equal(s.digest) })
	if i < 0 || s.kind() == s.algorithm.String() {
		return algorithm{}, false
	}
	return algorithms[i], true
}

// kind returns the algorithm of the key: "rsa", "ecdsa", or its object identifier.
func (s signerInfo) kind() string {
	if s.algorithm.Equal(oidRSA) {
		return "rsa"
	}
	if slices.ContainsFunc(
		algorithms,
		func(a algorithm) bool { return a.ecdsa.Equal(s.algorithm) },
	) {
		return "ecdsa"
	}
	return s.algorithm.String()
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
	in := cryptobyte.String(der)
	var outer, wrapped, data, content, infos cryptobyte.String
	var kind goasn1.ObjectIdentifier
	var version int64
	if !in.ReadASN1(&outer, asn1.SEQUENCE) || !outer.ReadASN1ObjectIdentifier(&kind) {
		return nil, malformed("it is not PKCS#7 in DER")
	}
	if !kind.Equal(oidSignedData) {
		return nil, malformed("it is PKCS#7 of type %s, not SignedData", kind)
	}
	if !outer.ReadASN1(&wrapped, asn1.Tag(0).ContextSpecific().Constructed()) || !wrapped.ReadASN1(&data, asn1.SEQUENCE) ||
		!data.ReadASN1Integer(&version) || !data.SkipASN1(asn1.SET) ||
		!data.ReadASN1(&content, asn1.SEQUENCE) ||
		!content.ReadASN1ObjectIdentifier(&kind) {
		return nil, malformed("its SignedData is broken")
	}
	if version != 1 && version != 3 {
		return nil, malformed("SignedData of version %d", version)
	}
	if !kind.Equal(oidData) {
		return nil, malformed("it signs content of type %s, not data", kind)
	}
	if !content.Empty() {
		return nil, malformed("it has the signed content inside, not beside it")
	}
	for _, tag := range []uint8{0, 1, 2, 3} { // certificates, revocation lists
		if !data.SkipOptionalASN1(asn1.Tag(tag).ContextSpecific().Constructed()) {
			return nil, malformed("its certificates are broken")
		}
	}
	if !data.ReadASN1(&infos, asn1.SET) || !data.Empty() {
		return nil, malformed("its list of signers is broken")
	}
	var out []signerInfo
	for !infos.Empty() {
		s, err := decodeSigner(&infos, version)
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

func decodeSigner(infos *cryptobyte.String, message int64) (s signerInfo, err error) {
	var info, sid, name, id, attributes, digest, algorithm, signature cryptobyte.String
	var version int64
	if !infos.ReadASN1(&info, asn1.SEQUENCE) || !info.ReadASN1Integer(&version) {
		return s, malformed("its signer is broken")
	}
	byName := info.PeekASN1Tag(asn1.SEQUENCE)
	if version != 1 && version != 3 || (version == 1) != (message == 1) ||
		(version == 1) != byName {
		return s, malformed(
			"SignerInfo of version %d in SignedData of version %d",
			version,
			message,
		)
	}
	ok := false
	if byName {
		ok = info.ReadASN1(&sid, asn1.SEQUENCE) && sid.ReadASN1Element(&name, asn1.SEQUENCE) &&
			sid.ReadASN1(&id, asn1.INTEGER) &&
			sid.Empty()
		s.issuer = name
		s.serial = id
	} else {
		ok = info.ReadASN1(&id, asn1.Tag(0).ContextSpecific())
		s.keyID = id
	}
	if !ok || !info.ReadASN1(&digest, asn1.SEQUENCE) || !digest.ReadASN1ObjectIdentifier(&s.digest) ||
		!info.ReadOptionalASN1(&attributes, &s.attributes, asn1.Tag(0).ContextSpecific().Constructed()) ||
		!info.ReadASN1(&algorithm, asn1.SEQUENCE) ||
		!algorithm.ReadASN1ObjectIdentifier(&s.algorithm) ||
		!info.ReadASN1(&signature, asn1.OCTET_STRING) ||
		!info.SkipOptionalASN1(asn1.Tag(1).ContextSpecific().Constructed()) ||
		!info.Empty() {
		return s, malformed("its signer is broken")
	}
	s.signature = signature
	return s, nil
}
