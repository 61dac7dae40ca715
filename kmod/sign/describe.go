package sign

import (
	"crypto/x509"
	goasn1 "encoding/asn1"
	"strings"

	"golang.org/x/crypto/cryptobyte"
	"golang.org/x/crypto/cryptobyte/asn1"
)

// Description is what a signature claims of itself; nothing of it is checked.
type Description struct {
	Issuer    string // common name of the issuer of the signer's certificate, else its organisation; "" when the key is named by KeyID
	Serial    []byte // serial number of that certificate; nil when the key is named by KeyID
	KeyID     []byte // subject key identifier; nil when the key is named by issuer and serial number
	Hash      string // "sha256"; a dotted number when it is not known here
	Algorithm string // "rsa", "ecdsa"; a dotted number when it is not known here
}

// otherHashes are known by name only.
var otherHashes = map[string]string{"1.2.840.113549.2.5": "md5", "1.2.840.113549.2.4": "md4", "1.2.156.10197.1.401": "sm3"}

// Describe reads the first signer of a PKCS#7 signature. Errors wrap ErrMalformed where kernels say EBADMSG, or
// ErrUnsupported when it has no signer at all.
func Describe(der []byte) (Description, error) {
	infos, err := decode(der)
	if err != nil {
		return Description{}, err
	}
	if len(infos) == 0 {
		return Description{}, noSigner()
	}
	s := infos[0]
	d := Description{Serial: s.serial, KeyID: s.keyID, Hash: s.digest.String(), Algorithm: s.kind()}
	if s.issuer != nil {
		d.Issuer = commonName(s.issuer)
	}
	for _, a := range algorithms {
		if a.oid.Equal(s.digest) {
			d.Hash = a.name
		}
	}
	if name := otherHashes[d.Hash]; name != "" {
		d.Hash = name
	}
	return d, nil
}

// signer is how messages name the key of a signature.
func (s signerInfo) signer() string {
	if s.issuer == nil {
		return "key id " + Colons(s.keyID)
	}
	return "issuer \"" + commonName(s.issuer) + "\", serial number " + Colons(s.serial)
}

// commonName takes the CN of a distinguished name, else its organisation, else its first text of any kind.
func commonName(der cryptobyte.String) string {
	var name cryptobyte.String
	if !der.ReadASN1(&name, asn1.SEQUENCE) {
		return ""
	}
	found := map[string]string{}
	for !name.Empty() {
		var set, pair, value cryptobyte.String
		var kind goasn1.ObjectIdentifier
		var tag asn1.Tag
		if !name.ReadASN1(&set, asn1.SET) || !set.ReadASN1(&pair, asn1.SEQUENCE) ||
			!pair.ReadASN1ObjectIdentifier(&kind) || !pair.ReadAnyASN1(&value, &tag) {
			break
		}
		text := printable(string(value))
		for _, key := range []string{kind.String(), "any"} {
			if found[key] == "" {
				found[key] = text
			}
		}
	}
	for _, key := range []string{"2.5.4.3", "2.5.4.10", "any"} {
		if found[key] != "" {
			return found[key]
		}
	}
	return ""
}

// Owner names a certificate for people: by the common name of its subject, or by the whole subject.
func Owner(cert *x509.Certificate) string {
	if cert.Subject.CommonName != "" {
		return cert.Subject.CommonName
	}
	return cert.Subject.String()
}

// Colons writes a serial number or key id as modinfo does: 4A:0F:11.
func Colons(b []byte) string {
	const digits = "0123456789ABCDEF"
	out := make([]byte, 0, 3*len(b))
	for i, c := range b {
		if i > 0 {
			out = append(out, ':')
		}
		out = append(out, digits[c>>4], digits[c&15])
	}
	return string(out)
}

// printable replaces what would garble a log line or a terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 || r == '\ufffd' {
			return '?'
		}
		return r
	}, s)
}
