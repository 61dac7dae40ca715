package flags

import (
	"crypto"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"

	"github.com/spf13/pflag"

	"github.com/driver-container/driver-container/cmd/driver-build/session"
	"github.com/driver-container/driver-container/images/signature"
	"github.com/driver-container/driver-container/kmod/sign"
	"github.com/driver-container/driver-container/kmod/sign/keyfile"
	"github.com/driver-container/driver-container/kmod/sign/pkcs11"
)

// The variables with the passphrase or PIN of --module-key and --image-key: an argument would be
// seen by everybody on the machine.
const (
	PassphraseVariable      = "DRIVER_MODULE_PASSPHRASE"
	ImagePassphraseVariable = "DRIVER_IMAGE_PASSPHRASE"
)

// Signer says whose key signs modules.
type Signer struct{ Key, Cert string }

// AddTo declares the flags.
func (s *Signer) AddTo(f *pflag.FlagSet) {
	f.StringVar(
		&s.Key,
		"module-key",
		"",
		"sign the modules with this key: `FILE` (PEM, DER or PKCS#12) or a pkcs11: URI; its passphrase "+
			"or PIN is $"+PassphraseVariable,
	)
	f.StringVar(
		&s.Cert,
		"module-cert",
		"",
		"certificate of that key: `FILE` (PEM or DER); not needed where the key's file or token has it",
	)
}

// Check finds flags that have no effect. wanted says whether there is anything to sign.
func (s *Signer) Check(wanted bool) error {
	if s.Key == "" && s.Cert != "" {
		return session.Usagef("--module-cert belongs to a key: give --module-key too")
	}
	if s.Key != "" && !wanted {
		return session.Usagef(
			"--module-key signs modules that are compiled ahead of time: give --kernel too",
		)
	}
	return nil
}

// Load reads the key; the signer is nil when there is none.
func (s *Signer) Load(a *session.App) (*sign.Signer, error) {
	if s.Key == "" {
		return nil, nil //nolint:nilnil // nil is no signer
	}
	pass := passphrase(a, PassphraseVariable)
	var signer *sign.Signer
	var err error
	if onToken(s.Key) {
		var token io.Closer
		signer, token, err = pkcs11.Open(s.Key, s.Cert, pass)
		a.DeferClose(token)
	} else {
		signer, err = sign.LoadSigner(s.Key, s.Cert, pass)
	}
	if err != nil {
		return nil, keyError("--module-key", PassphraseVariable, err)
	}
	return signer, nil
}

// ImageKey says which private key signs images and bundles.
type ImageKey struct{ Key string }

// AddTo declares the flag. what is what the key signs.
func (k *ImageKey) AddTo(f *pflag.FlagSet, what string) {
	f.StringVar(
		&k.Key,
		"image-key",
		"",
		"sign "+what+" with this private key: `FILE` (PEM, DER, PKCS#12, cosign's) or a pkcs11: URI; "+
			"its passphrase or PIN is $"+ImagePassphraseVariable,
	)
}

// Load reads the key and makes the signer, which is nil when none was given.
func (k *ImageKey) Load(a *session.App) (signature.Signer, error) {
	if k.Key == "" {
		return nil, nil //nolint:nilnil // nil is no signer
	}
	pass := passphrase(a, ImagePassphraseVariable)
	var key crypto.Signer
	var err error
	if onToken(k.Key) {
		var token io.Closer
		key, token, err = pkcs11.OpenKey(k.Key, pass)
		a.DeferClose(token)
	} else {
		key, _, err = keyfile.LoadPrivate(k.Key, pass)
	}
	if err != nil {
		return nil, keyError("--image-key", ImagePassphraseVariable, err)
	}
	signer, err := signature.NewKeySigner(key)
	if err != nil {
		return nil, session.Usagef("--image-key: %w", err)
	}
	return signer, nil
}

func onToken(key string) bool { return strings.HasPrefix(key, "pkcs11:") }

// passphrase returns the one in a variable of the environment, nil if there is none.
func passphrase(a *session.App, variable string) keyfile.Passphrase {
	text := a.Getenv(variable)
	if text == "" {
		return nil
	}
	return func() ([]byte, error) { return []byte(text), nil }
}

// keyError says where the passphrase comes from if it is the fault.
func keyError(flag, variable string, err error) error {
	if errors.Is(err, keyfile.ErrPassphrase) {
		err = fmt.Errorf("%w; it comes from the variable %s", err, variable)
	}
	return session.Usagef("%s: %w", flag, err)
}

// ImageSigner says who signs images, and in which format.
type ImageSigner struct {
	Key                ImageKey
	Program, PublicKey string
	Format             signature.Format
}

// AddTo declares the flags.
func (s *ImageSigner) AddTo(f *pflag.FlagSet) {
	s.Key.AddTo(f, "the image itself")
	f.StringVar(
		&s.Program,
		"image-signer",
		"",
		"sign the image itself with a `PROGRAM`, which reads what to sign and prints the signature",
	)
	session.Rare(f, func(f *pflag.FlagSet) {
		f.StringVar(
			&s.PublicKey,
			"image-public-key",
			"",
			"FILE with the public key of the one who signs elsewhere",
		)
		session.Choice(
			f,
			&s.Format,
			"signature-format",
			"tags .sig and .att, which all verifiers read, or sigstore's referrers",
			signature.Legacy,
			signature.Bundle,
			signature.Both,
		)
	})
}

// Signs says whether images are to be signed.
func (s *ImageSigner) Signs() bool { return s.Key.Key != "" || s.Program != "" }

// Check finds mistakes that need no key. detached says that a public key makes sense without a
// program.
func (s *ImageSigner) Check(detached bool) error {
	switch {
	case s.Key.Key != "" && s.Program != "":
		return session.Usagef("--image-key and --image-signer both say who signs: give one")
	case s.PublicKey != "" && s.Program == "" && !detached:
		return session.Usagef(
			"--image-public-key belongs to a signer elsewhere: give --image-signer too",
		)
	case s.Program != "" && s.PublicKey == "" && s.Format != signature.Legacy:
		return session.Usagef(
			"--signature-format %s: a bundle names the key: give --image-public-key too",
			s.Format,
		)
	case !s.Signs() && !detached && s.Format != signature.Legacy:
		return session.Usagef(
			"--signature-format is of a signature: give --image-key or --image-signer too",
		)
	}
	return nil
}

// Load prepares the signer, which is nil if there is none; all that can be wrong with keys is found
// now.
func (s *ImageSigner) Load(a *session.App) (signature.Signer, error) {
	if s.Program == "" {
		signer, err := s.Key.Load(a)
		if err != nil || signer == nil {
			return nil, err
		}
		return signature.Once(signer), nil
	}
	path, err := exec.LookPath(s.Program)
	if err != nil {
		return nil, session.Usagef("--image-signer: %w", err)
	}
	public, err := s.Public()
	if err != nil {
		return nil, err
	}
	return signature.Once(signature.Program{Path: path, Key: public}), nil
}

// Public reads the key of --image-public-key; it is nil if there is none.
func (s *ImageSigner) Public() (crypto.PublicKey, error) {
	if s.PublicKey == "" {
		return nil, nil //nolint:nilnil // nil is the key that is not known
	}
	keys, err := PublicKeys("--image-public-key", s.PublicKey)
	if err != nil {
		return nil, err
	}
	if len(keys) > 1 {
		return nil, session.Usagef(
			"--image-public-key %s holds %d keys: give the one of the signer",
			s.PublicKey,
			len(keys),
		)
	}
	return keys[0], nil
}
