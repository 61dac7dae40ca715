// Package keyfile reads files of keys: private keys in all common formats, public keys, and
// certificates. It finds a format by content. It neither makes keys nor decides which of them to
// trust.
package keyfile

import (
	"bytes"
	"crypto"
	"crypto/x509"
	"errors"
	"fmt"

	"github.com/secure-systems-lab/go-securesystemslib/encrypted"
	"software.sslmate.com/src/go-pkcs12"

	"github.com/driver-container/driver-container/distros/bounded"
)

// Passphrase returns the passphrase of a private key; a nil Passphrase has none. LoadPrivate calls
// it once, and only when the key is encrypted. The caller removes a newline at the end of a
// passphrase file.
type Passphrase func() ([]byte, error)

// maxPassphrase bounds the file of a passphrase, in bytes.
const maxPassphrase = 4 << 10

// PassphraseFile returns the passphrase in a file, without the end of its line. The file is read
// when the passphrase is needed.
func PassphraseFile(path string) Passphrase {
	return func() (pass []byte, err error) {
		pass, err = bounded.File(path, maxPassphrase)
		if errors.Is(err, bounded.ErrTooLarge) {
			err = fmt.Errorf("%w: it should hold a passphrase only", err)
		}
		return bytes.TrimRight(pass, "\r\n"), err
	}
}

// ErrPassphrase says that a key could not be decrypted: there was no passphrase, or a wrong one.
var ErrPassphrase = errors.New("the passphrase is missing or wrong")

// LoadPrivate reads a private key and the certificates that its file also has. It finds the format
// by content, not by name: PEM or DER of PKCS#8 (also encrypted), PKCS#1 or SEC1, PKCS#12, or the
// encrypted PEM of cosign and sigstore. The key is RSA, ECDSA or Ed25519; LoadPrivate does not
// decide which of them are of use. It reads at most 1 MiB; no error shows the content of the file.
func LoadPrivate(file string, pass Passphrase) (crypto.Signer, []*x509.Certificate, error) {
	items, err := readItems(file)
	if err != nil {
		return nil, nil, fmt.Errorf("load the key %s: %w", file, err)
	}
	key, certs, err := private(items, pass)
	if err != nil {
		return nil, nil, fmt.Errorf("load the key %s: %w", file, err)
	}
	return key, certs, nil
}

func private(items []item, pass Passphrase) (crypto.Signer, []*x509.Certificate, error) {
	var key crypto.Signer
	var certs []*x509.Certificate
	for _, item := range items {
		switch {
		case item.kind == kindCertificate:
			cert, err := x509.ParseCertificate(item.der)
			if err != nil {
				return nil, nil, fmt.Errorf("its certificate: %w", err)
			}
			certs = append(certs, cert)
		case !item.private(): // a public key beside the private one
		case key != nil:
			return nil, nil, errors.New(
				"it holds more than one private key: give a file with the one to sign with",
			)
		default:
			var with []*x509.Certificate
			var err error
			key, with, err = item.open(pass)
			if err != nil {
				return nil, nil, err
			}
			certs = append(certs, with...)
		}
	}
	if key == nil {
		return nil, nil, fmt.Errorf(
			"it holds a %s and no private key: give the private key, which signs",
			items[0].kind,
		)
	}
	return key, certs, nil
}

// open returns the usable key of an item; a PKCS#12 item also has certificates.
func (i item) open(pass Passphrase) (crypto.Signer, []*x509.Certificate, error) {
	var key any
	var certs []*x509.Certificate
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
	case kindSigstore:
		key, err = decryptSigstore(i.der, pass)
	case kindPKCS12:
		key, certs, err = openPKCS12(i.der, pass)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read the private key (%s): %w", i.kind, err)
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, nil, fmt.Errorf("a private key of type %T cannot sign", key)
	}
	return signer, certs, nil
}

// decryptSigstore decrypts what cosign writes: PKCS#8 in a secret box, whose key is derived with
// scrypt. Like openPKCS12 it tries the empty passphrase if none is given. The library bounds the
// parameters of scrypt.
func decryptSigstore(box []byte, pass Passphrase) (any, error) {
	phrase, err := pass.orEmpty()
	if err != nil {
		return nil, err
	}
	defer clear(phrase)
	der, err := encrypted.Decrypt(box, phrase)
	if err != nil { // the library's error is not shown, because it can quote the file
		return nil, fmt.Errorf("decrypt it: %w (or it is damaged)", ErrPassphrase)
	}
	defer clear(der)
	return x509.ParsePKCS8PrivateKey(der)
}

// orEmpty returns the passphrase, or an empty one if there is none.
func (p Passphrase) orEmpty() ([]byte, error) {
	if p == nil {
		return nil, nil
	}
	phrase, err := p()
	if err != nil {
		return nil, fmt.Errorf("get the passphrase: %w", err)
	}
	return phrase, nil
}

// openPKCS12 tries without a passphrase if none is given, because such files exist.
func openPKCS12(der []byte, pass Passphrase) (any, []*x509.Certificate, error) {
	phrase, err := pass.orEmpty()
	if err != nil {
		return nil, nil, err
	}
	defer clear(phrase)
	key, cert, more, err := pkcs12.DecodeChain(der, string(phrase))
	switch {
	case errors.Is(err, pkcs12.ErrIncorrectPassword), errors.Is(err, pkcs12.ErrDecryption):
		return nil, nil, fmt.Errorf("decrypt it: %w", ErrPassphrase)
	case err != nil:
		return nil, nil, err
	}
	return key, append([]*x509.Certificate{cert}, more...), nil
}
