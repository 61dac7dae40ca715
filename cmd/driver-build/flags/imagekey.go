package flags

import (
	"crypto"
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
	none := func() error { return nil }
	switch {
	case k.Key == "" && k.PassphraseFile != "":
		return nil, none, session.Usagef("--image-passphrase-file belongs to a key: give --image-key too")
	case k.Key == "":
		return nil, none, nil
	}
	pass := func() ([]byte, error) { return []byte(getenv(ImagePassphraseVariable)), nil }
	switch {
	case k.PassphraseFile != "":
		if _, err := keyfile.PassphraseFile(k.PassphraseFile)(); err != nil { // which is not read for a key without a passphrase
			return nil, none, session.Usagef("--image-passphrase-file: %w", err)
		}
		pass = keyfile.PassphraseFile(k.PassphraseFile)
	case getenv(ImagePassphraseVariable) == "":
		pass = nil
	}
	if strings.HasPrefix(k.Key, "pkcs11:") {
		key, token, err := pkcs11.OpenKey(k.Key, pass)
		if err != nil {
			return nil, none, session.Usagef("--image-key: %w", err)
		}
		return key, token.Close, nil
	}
	key, _, err := keyfile.LoadPrivate(k.Key, pass)
	if err != nil {
		return nil, none, session.Usagef("--image-key: %w", err)
	}
	return key, none, nil
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
