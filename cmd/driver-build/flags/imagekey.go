package flags

import (
	"crypto"
	"io"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/driver-container/driver-container/cmd/driver-build/session"
	"github.com/driver-container/driver-container/kmod/sign/keyfile"
	"github.com/driver-container/driver-container/kmod/sign/pkcs11"
)

// ImagePassphraseVariable and --image-passphrase-file are the ways to give the passphrase or
// PIN of --image-key.
const ImagePassphraseVariable = "DRIVER_IMAGE_PASSPHRASE"

// ImageKey says which private key signs images and bundles.
type ImageKey struct{ Key, PassphraseFile string }

// AddTo declares the flags. what is what the key signs.
func (k *ImageKey) AddTo(f *pflag.FlagSet, what string) {
	f.StringVar(&k.Key, "image-key", "", "sign "+what+" with this private key: FILE (PEM, DER, PKCS#12, cosign's) or a pkcs11: URI")
	f.StringVar(&k.PassphraseFile, "image-passphrase-file", "", "FILE with the key's passphrase or PIN (or "+ImagePassphraseVariable+" in the environment)")
}

// Load reads the key, which is nil when none was given. closer ends the session with a token.
func (k *ImageKey) Load(getenv func(string) string) (_ crypto.Signer, closer func() error, err error) {
	if k.Key == "" {
		if k.PassphraseFile != "" {
			return nil, noClose, session.Usagef("--image-passphrase-file belongs to a key: give --image-key too")
		}
		return nil, noClose, nil
	}
	pass, err := passphrase("--image-passphrase-file", k.PassphraseFile, getenv(ImagePassphraseVariable))
	if err != nil {
		return nil, noClose, err
	}
	var signer crypto.Signer
	var token io.Closer
	if strings.HasPrefix(k.Key, "pkcs11:") {
		signer, token, err = pkcs11.OpenKey(k.Key, pass)
	} else {
		signer, _, err = keyfile.LoadPrivate(k.Key, pass)
	}
	return opened("--image-key", signer, token, err)
}

func noClose() error { return nil }

// opened completes what loads a key: an error names its flag, and a file has nothing to close.
func opened[T any](flag string, key T, token io.Closer, err error) (_ T, closer func() error, _ error) {
	switch {
	case err != nil:
		var none T
		return none, noClose, session.Usagef("%s: %w", flag, err)
	case token == nil:
		return key, noClose, nil
	}
	return key, token.Close, nil
}

// passphrase reads a passphrase or PIN from a file, else it is that of the environment; nil when none was given. A
// mistake in the file is found also for a key without a passphrase, which does not ask for one.
func passphrase(flag, file, ofEnvironment string) (keyfile.Passphrase, error) {
	if file != "" {
		pass := keyfile.PassphraseFile(file)
		if _, err := pass(); err != nil {
			return nil, session.Usagef("%s: %w", flag, err)
		}
		return pass, nil
	}
	if ofEnvironment == "" {
		return nil, nil //nolint:nilnil // nil is no passphrase
	}
	return func() ([]byte, error) { return []byte(ofEnvironment), nil }, nil
}

// Trust says which public keys are trusted.
type Trust struct {
	Keys     []string // files
	Unsigned bool
}

// AddTo declares the flags.
func (k *Trust) AddTo(f *pflag.FlagSet) {
	f.StringArrayVar(&k.Keys, "key", nil, "FILE with public keys or certificates, one of which must have signed it (repeatable)")
	f.BoolVar(&k.Unsigned, "allow-unsigned", false, "do not look at signatures")
}

// Load reads the keys; there are none with --allow-unsigned.
func (k *Trust) Load(now time.Time) ([]crypto.PublicKey, error) {
	if k.Unsigned == (len(k.Keys) > 0) {
		return nil, session.Usagef("give --key FILE, or --allow-unsigned if who made it does not matter")
	}
	return PublicKeys("--key", now, k.Keys...)
}
