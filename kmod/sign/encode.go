package sign

import (
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
)

// Object identifiers of PKCS#7 (RFC 2315) and of the keys' algorithms.
var (
	oidData       = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 7, 1}
	oidSignedData = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 7, 2}
	oidRSA        = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, 1}
)

// encode returns the DER of a SignedData: version 1, one signer by issuer and serial number, no
// content, no certificates, no attributes.
func encode(cert *x509.Certificate, a algorithm, signature []byte) ([]byte, error) {
	digest := pkix.AlgorithmIdentifier{Algorithm: a.oid}
	kind := pkix.AlgorithmIdentifier{Algorithm: a.ecdsa}
	if _, isRSA := cert.PublicKey.(*rsa.PublicKey); isRSA {
		kind = pkix.AlgorithmIdentifier{Algorithm: oidRSA, Parameters: asn1.NullRawValue}
	}
	issuer := asn1.RawValue{FullBytes: cert.RawIssuer}
	name, err := asn1.Marshal(issuerSerial{Issuer: issuer, Serial: serialOf(cert)})
	if err != nil {
		return nil, err
	}
	info, err := asn1.Marshal(signerInfo{
		Version: 1, Key: asn1.RawValue{FullBytes: name}, Digest: digest, Algorithm: kind, Signature: signature,
	})
	if err != nil {
		return nil, err
	}
	return asn1.Marshal(message{oidSignedData, signedData{
		Version: 1, Digests: []pkix.AlgorithmIdentifier{digest}, Content: contentInfo{Type: oidData},
		Signers: []asn1.RawValue{{FullBytes: info}},
	}})
}

// serialOf returns the certificate's serial number as PKCS#7 and kernels compare it: the integer's
// bytes. It is empty for a number that no certificate has.
func serialOf(cert *x509.Certificate) (number asn1.RawValue) {
	der, err := asn1.Marshal(cert.SerialNumber)
	if err != nil {
		return number
	}
	_, _ = asn1.Unmarshal(der, &number) // it was just marshalled
	return number
}
