package flags

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"

	"github.com/driver-container/driver-container/kmod/sign"
	"github.com/driver-container/driver-container/kmod/sign/keyfile"
	"github.com/driver-container/driver-container/kmod/sign/pkcs11"
)

// PassphraseVariable and --sign-passphrase-file are the ways to give a passphrase or PIN: an argument would
// be seen by everybody on the machine.
const PassphraseVariable = "DRIVER_SIGN_PASSPHRASE"

// Signer says whose key signs modules.
type Signer struct{ Key, Cert, PassphraseFile string }

// AddTo declares the flags.
func (s *Signer) AddTo(f *pflag.FlagSet) {
	f.StringVar(&s.Key, "sign-key", "", "sign the modules with this key: FILE (PEM, DER or PKCS#12) or a pkcs11: URI")
	f.StringVar(&s.Cert, "sign-cert", "", "certificate of that key: FILE (PEM or DER); not needed where the key's file or token has it")
	f.StringVar(&s.PassphraseFile, "sign-passphrase-file", "", "FILE with the key's passphrase or PIN (or "+PassphraseVariable+" in the environment)")
}

// Check finds flags that have no effect. wanted says whether there is anything to sign.
func (s *Signer) Check(wanted bool) error {
	switch {
	case s.Key == "" && (s.Cert != "" || s.PassphraseFile != ""):
		return errors.New("--sign-cert and --sign-passphrase-file belong to a key: give --sign-key too")
	case s.Key != "" && !wanted:
		return errors.New("--sign-key signs modules that are compiled ahead of time: give --kernel too")
	}
	return nil
}

// Load reads the key; the signer is nil when there is none. closer ends the session with a token.
func (s *Signer) Load(getenv func(string) string) (_ *sign.Signer, closer func() error, err error) {
	if s.Key == "" {
		return nil, noClose, nil
	}
	pass, err := passphrase("--sign-passphrase-file", s.PassphraseFile, getenv(PassphraseVariable))
	if err != nil {
		return nil, noClose, err
	}
	var signer *sign.Signer
	var token io.Closer
	if strings.HasPrefix(s.Key, "pkcs11:") {
		signer, token, err = pkcs11.Open(s.Key, s.Cert, pass)
	} else {
		signer, err = sign.LoadSigner(s.Key, s.Cert, pass)
	}
	return opened("--sign-key", signer, token, err)
}

// Certificates reads the files of --sign-cert.
func Certificates(files []string) ([]*x509.Certificate, error) {
	var all []*x509.Certificate
	for _, file := range files {
		certs, err := keyfile.LoadCertificates(file)
		if err != nil {
			return nil, fmt.Errorf("--sign-cert: %w", err)
		}
		all = append(all, certs...)
	}
	return all, nil
}
