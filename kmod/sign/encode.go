package sign

import (
	"crypto/rsa"
	"crypto/x509"
	goasn1 "encoding/asn1"

	"golang.org/x/crypto/cryptobyte"
	"golang.org/x/crypto/cryptobyte/asn1"
)

// Object identifiers of PKCS#7 (RFC 2315) and of the keys' algorithms.
var (
	oidData       = goasn1.ObjectIdentifier{1, 2, 840, 113549, 1, 7, 1}
	oidSignedData = goasn1.ObjectIdentifier{1, 2, 840, 113549, 1, 7, 2}
	oidRSA        = goasn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, 1}
)

// encode returns the DER of a SignedData: version 1, one signer by issuer and serial number, no
// content, no certificates, no attributes.
func encode(cert *x509.Certificate, a algorithm, signature []byte) ([]byte, error) {
	_, isRSA := cert.PublicKey.(*rsa.PublicKey)
	sequence := asn1.SEQUENCE
	set := asn1.SET
	wrapped := asn1.Tag(0).ContextSpecific().Constructed()
	digest := func(b *cryptobyte.Builder) {
		b.AddASN1(sequence, func(b *cryptobyte.Builder) { b.AddASN1ObjectIdentifier(a.oid) })
	}
	info := func(b *cryptobyte.Builder) {
		b.AddASN1Int64(1)
		b.AddASN1(sequence, func(b *cryptobyte.Builder) {
			b.AddBytes(cert.RawIssuer)
			b.AddASN1BigInt(cert.SerialNumber)
		})
		digest(b)
		b.AddASN1(sequence, func(b *cryptobyte.Builder) {
			if isRSA {
				b.AddASN1ObjectIdentifier(oidRSA)
				b.AddASN1NULL()
			} else {
				b.AddASN1ObjectIdentifier(a.ecdsa)
			}
		})
		b.AddASN1OctetString(signature)
	}
	var b cryptobyte.Builder
	b.AddASN1(sequence, func(b *cryptobyte.Builder) {
		b.AddASN1ObjectIdentifier(oidSignedData)
		b.AddASN1(wrapped, func(b *cryptobyte.Builder) {
			b.AddASN1(sequence, func(b *cryptobyte.Builder) {
				b.AddASN1Int64(1)
				b.AddASN1(set, digest)
				b.AddASN1(
					sequence,
					func(b *cryptobyte.Builder) { b.AddASN1ObjectIdentifier(oidData) },
				)
				b.AddASN1(set, func(b *cryptobyte.Builder) { b.AddASN1(sequence, info) })
			})
		})
	})
	return b.Bytes()
}

// serialOf returns the content of the certificate's serial number as PKCS#7 and kernels compare it:
// the integer's bytes.
func serialOf(cert *x509.Certificate) []byte {
	var number goasn1.RawValue
	der, err := goasn1.Marshal(cert.SerialNumber)
	if err == nil {
		_, err = goasn1.Unmarshal(der, &number)
	}
	if err != nil {
		return nil // no certificate has such a number
	}
	return number.Bytes
}
