package sign

import (
	"fmt"

	"github.com/driver-container/driver-container/kmod/sign/keyfile"
)

// LoadSigner reads a private key and its certificate, see keyfile.LoadPrivate. The certificate comes from
// certFile (see keyfile.LoadCertificates; of several, the one of the key counts); certFile is "" when keyFile
// also has the certificate.
func LoadSigner(keyFile, certFile string, pass keyfile.Passphrase) (*Signer, error) {
	key, certs, err := keyfile.LoadPrivate(keyFile, pass)
	if err != nil {
		return nil, err
	}
	if certFile == "" {
		certFile = keyFile
	} else if certs, err = keyfile.LoadCertificates(certFile); err != nil {
		return nil, fmt.Errorf("load the key %s: %w", keyFile, err)
	}
	if len(certs) == 0 {
		return nil, fmt.Errorf("load the key %s: it holds no certificate: give the file that has the key's", keyFile)
	}
	s, err := NewSigner(key, certs...)
	if err != nil {
		return nil, fmt.Errorf("load the key %s with the certificate of %s: %w", keyFile, certFile, err)
	}
	return s, nil
}
