package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/driver-container/driver-container/kmod/sign"
	"github.com/driver-container/driver-container/kmod/sign/keyfile"
	"github.com/driver-container/driver-container/kmod/sign/pkcs11"
)

// passphraseVariable and --sign-passphrase-file are the ways to give a passphrase or PIN: an argument would
// be seen by everybody on the machine.
const passphraseVariable = "DRIVER_SIGN_PASSPHRASE"

// signerFlags say whose key signs modules.
type signerFlags struct{ key, cert, passphraseFile string }

func (s *signerFlags) flags(f *pflag.FlagSet) {
	f.StringVar(&s.key, "sign-key", "", "sign the modules with this key: FILE (PEM, DER or PKCS#12) or a pkcs11: URI")
	f.StringVar(&s.cert, "sign-cert", "", "certificate of that key: FILE (PEM or DER); not needed where the key's file or token has it")
	f.StringVar(&s.passphraseFile, "sign-passphrase-file", "", "FILE with the key's passphrase or PIN (or "+passphraseVariable+" in the environment)")
}

// check finds flags that have no effect. wanted says whether there is anything to sign.
func (s *signerFlags) check(wanted bool) error {
	switch {
	case s.key == "" && (s.cert != "" || s.passphraseFile != ""):
		return errors.New("--sign-cert and --sign-passphrase-file belong to a key: give --sign-key too")
	case s.key != "" && !wanted:
		return errors.New("--sign-key signs modules that are compiled ahead of time: give --kernel too")
	}
	return nil
}

// load reads the key; the signer is nil when there is none. closer ends the session with a token.
func (s *signerFlags) load(getenv func(string) string) (_ *sign.Signer, closer func() error, err error) {
	none := func() error { return nil }
	if s.key == "" {
		return nil, none, nil
	}
	if s.passphraseFile != "" { // which is not read for a key without a passphrase
		if _, err := os.Stat(s.passphraseFile); err != nil {
			return nil, none, fmt.Errorf("--sign-passphrase-file: %w", err)
		}
	}
	if strings.HasPrefix(s.key, "pkcs11:") {
		signer, token, err := pkcs11.Open(s.key, s.cert, s.passphrase(getenv))
		if err != nil {
			return nil, none, fmt.Errorf("--sign-key: %w", err)
		}
		return signer, token.Close, nil
	}
	signer, err := sign.LoadSigner(s.key, s.cert, s.passphrase(getenv))
	if err != nil {
		return nil, none, fmt.Errorf("--sign-key: %w", err)
	}
	return signer, none, nil
}

// passphrase is nil when none was given.
func (s *signerFlags) passphrase(getenv func(string) string) keyfile.Passphrase {
	if s.passphraseFile != "" {
		return keyfile.PassphraseFile(s.passphraseFile)
	}
	text := getenv(passphraseVariable)
	if text == "" {
		return nil
	}
	return func() ([]byte, error) { return []byte(text), nil }
}
