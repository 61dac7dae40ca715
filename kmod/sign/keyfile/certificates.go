package keyfile

import (
	"crypto/x509"
	"fmt"
)

// LoadCertificates reads the certificates of a file: PEM with one or more (it skips keys and other blocks),
// or DER. Without an error there is at least one.
func LoadCertificates(file string) ([]*x509.Certificate, error) {
	items, err := readItems(file)
	if err != nil {
		return nil, fmt.Errorf("load the certificate %s: %w", file, err)
	}
	var certs []*x509.Certificate
	for _, item := range items {
		if item.kind != kindCertificate {
			continue
		}
		cert, err := x509.ParseCertificate(item.der)
		if err != nil {
			return nil, fmt.Errorf("load the certificate %s: %w", file, err)
		}
		certs = append(certs, cert)
	}
	if len(certs) == 0 {
		if items[0].kind == kindPKCS12 {
			return nil, fmt.Errorf("load the certificate %s: it is PKCS#12: take the certificate out with: openssl pkcs12 -in FILE -nokeys -out cert.pem", file)
		}
		return nil, fmt.Errorf("load the certificate %s: it holds a private key and no certificate", file)
	}
	return certs, nil
}
