package sign

import (
	"crypto"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"

	"software.sslmate.com/src/go-pkcs12"
)

// Passphrase returns the passphrase of a private key; a nil Passphrase has none. LoadSigner calls it once,
// and only when the key is encrypted. The caller removes a newline at the end of a passphrase file.
type Passphrase func() ([]byte, error)

// ErrPassphrase says that a key could not be decrypted: there was no passphrase, or a wrong one.
var ErrPassphrase = errors.New("the passphrase is missing or wrong")

// LoadSigner reads a private key and its certificate. It finds the format by content, not by name: PEM or DER
// of PKCS#8 (also encrypted), PKCS#1 or SEC1, or PKCS#12. The certificate comes from certFile (see
// LoadCertificates; of several, the one of the key counts); certFile is "" when keyFile also has the
// certificate. LoadSigner reads at most 1 MiB of a file; no error shows the content of a file.
func LoadSigner(keyFile, certFile string, pass Passphrase) (*Signer, error) {
	s, err := loadSigner(keyFile, certFile, pass)
	if err != nil {
		return nil, fmt.Errorf("load the key %s: %w", keyFile, err)
	}
	return s, nil
}

func loadSigner(keyFile, certFile string, pass Passphrase) (*Signer, error) {
	items, err := readItems(keyFile)
	if err != nil {
		return nil, err
	}
	var key crypto.Signer
	var certs []*x509.Certificate
	for _, item := range items {
		if item.kind == kindCertificate {
			if certFile == "" {
				cert, err := x509.ParseCertificate(item.der)
				if err != nil {
					return nil, fmt.Errorf("its certificate: %w", err)
				}
				certs = append(certs, cert)
			}
			continue
		}
		if key != nil {
			return nil, errors.New("it holds more than one private key: give a file with the one to sign with")
		}
		var with []*x509.Certificate
		if key, with, err = item.open(pass); err != nil {
			return nil, err
		}
		certs = append(certs, with...)
	}
	if key == nil {
		return nil, errors.New("it holds a certificate and no private key")
	}
	if certFile != "" {
		if certs, err = LoadCertificates(certFile); err != nil {
			return nil, err
		}
	} else {
		certFile = keyFile
	}
	if len(certs) == 0 {
		return nil, errors.New("it holds no certificate: give the file that has the key's")
	}
	own := slices.IndexFunc(certs, func(c *x509.Certificate) bool { return sameKey(key.Public(), c.PublicKey) })
	return newSigner(key, certs[max(own, 0)], certFile)
}

func newSigner(key crypto.Signer, cert *x509.Certificate, certFile string) (*Signer, error) {
	s, err := NewSigner(key, cert)
	if err != nil {
		return nil, fmt.Errorf("with the certificate of %s: %w", certFile, err)
	}
	return s, nil
}

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

// open returns the usable key of an item; a PKCS#12 item also has certificates.
func (i item) open(pass Passphrase) (crypto.Signer, []*x509.Certificate, error) {
	var key any
	var err error
	switch i.kind {
	case kindPKCS1:
		key, err = x509.ParsePKCS1PrivateKey(i.der)
	case kindSEC1:
		key, err = x509.ParseECPrivateKey(i.der)
	case kindPKCS8:
		key, err = x509.ParsePKCS8PrivateKey(i.der)
	case kindEncrypted:
		key, err = decryptPKCS8(i.der, pass)
	case kindPKCS12:
		return openPKCS12(i.der, pass)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read the private key (%s): %w", i.kind, err)
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, nil, fmt.Errorf("a private key of type %T cannot sign", key)
	}
	return signer, nil, nil
}

// openPKCS12 tries without a passphrase if none is given, because such files exist.
func openPKCS12(der []byte, pass Passphrase) (crypto.Signer, []*x509.Certificate, error) {
	var phrase []byte
	if pass != nil {
		var err error
		if phrase, err = pass(); err != nil {
			return nil, nil, fmt.Errorf("get the passphrase: %w", err)
		}
		defer clear(phrase)
	}
	key, cert, more, err := pkcs12.DecodeChain(der, string(phrase))
	switch {
	case errors.Is(err, pkcs12.ErrIncorrectPassword), errors.Is(err, pkcs12.ErrDecryption):
		return nil, nil, fmt.Errorf("decrypt the PKCS#12: %w", ErrPassphrase)
	case err != nil:
		return nil, nil, fmt.Errorf("read the PKCS#12: %w", err)
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, nil, fmt.Errorf("a private key of type %T cannot sign", key)
	}
	return signer, append([]*x509.Certificate{cert}, more...), nil
}
