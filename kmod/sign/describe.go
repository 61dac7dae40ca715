package sign

import (
	"cmp"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	goasn1 "encoding/asn1"
	"fmt"
	"strings"

	"github.com/driver-container/driver-container/kmod/kmsg"
)

// Description is what a signature claims about itself; none of it is verified.
type Description struct {
	// Issuer is the common name of the issuer of the signer's certificate, or else its
	// organisation; "" when the key is named by KeyID.
	Issuer string
	Serial []byte // serial number of that certificate; nil when the key is named by KeyID
	// subject key identifier; nil when the key is named by issuer and serial number
	KeyID     []byte
	Hash      string // "sha256"; an object identifier when this package does not know it
	Algorithm string // "rsa", "ecdsa"; an object identifier when this package does not know it
}

// otherHashes are known only by name.
var otherHashes = map[string]string{
	"1.2.840.113549.2.5":  "md5",
	"1.2.840.113549.2.4":  "md4",
	"1.2.156.10197.1.401": "sm3",
}

// Describe describes the first signer of a PKCS#7 signature. Errors wrap ErrMalformed where kernels
// return EBADMSG, or ErrUnsupported when the signature has no signer.
func Describe(der []byte) (Description, error) {
	infos, err := decode(der)
	if err != nil {
		return Description{}, err
	}
	if len(infos) == 0 {
		return Description{}, errNoSigner
	}
	s := infos[0]
	issuer, serial := s.name()
	digest := s.Digest.Algorithm
	d := Description{Serial: serial, KeyID: s.keyID(), Hash: digest.String(), Algorithm: s.kind()}
	if issuer != nil {
		d.Issuer = commonName(issuer)
	}
	a, known := algorithmOf(digest)
	if known {
		d.Hash = a.name
	}
	d.Hash = cmp.Or(otherHashes[d.Hash], d.Hash)
	return d, nil
}

// signer returns the name of a signature's key for messages.
func (s signerInfo) signer() string {
	issuer, serial := s.name()
	if issuer == nil {
		return "key id " + Colons(s.keyID())
	}
	return "issuer \"" + commonName(issuer) + "\", serial number " + Colons(serial)
}

// commonName returns the CN of a distinguished name, or else its organisation, or else its first
// text of any kind.
func commonName(der []byte) string {
	var parts pkix.RDNSequence
	var name pkix.Name
	if rest, err := goasn1.Unmarshal(der, &parts); err != nil || len(rest) > 0 {
		return ""
	}
	name.FillFromRDNSequence(&parts)
	text := name.CommonName
	if text == "" && len(name.Organization) > 0 {
		text = name.Organization[0]
	}
	if text == "" && len(name.Names) > 0 {
		text = fmt.Sprint(name.Names[0].Value)
	}
	return kmsg.Printable(text)
}

// Owner names a certificate for people: by the common name of its subject, or by the whole subject.
func Owner(cert *x509.Certificate) string {
	if cert.Subject.CommonName != "" {
		return cert.Subject.CommonName
	}
	return cert.Subject.String()
}

// Fingerprint names a certificate: SHA-256 of its DER form, in hex.
func Fingerprint(der []byte) string { return fmt.Sprintf("%x", sha256.Sum256(der)) }

// Colons formats a serial number or key id as modinfo does: 4A:0F:11.
func Colons(b []byte) string {
	return strings.ReplaceAll(fmt.Sprintf("% X", b), " ", ":")
}
