package flags

import (
	"crypto"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"

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
type Signer struct{ Key, Cert, PassphraseFile string }

// AddTo declares the flags.
func (s *Signer) AddTo(f *pflag.FlagSet) {
	f.StringVar(&s.Key, "module-key", "", "sign the modules with this key: `FILE` (PEM, DER or PKCS#12) or a pkcs11: URI")
	f.StringVar(&s.Cert, "module-cert", "", "certificate of that key: `FILE` (PEM or DER); not needed where the key's file or token has it")
	f.StringVar(&s.PassphraseFile, "module-passphrase-file", "", "FILE with the key's passphrase or PIN (or "+PassphraseVariable+" in the environment)")
	session.Hide(f, "module-passphrase-file")
}

// Check finds flags that have no effect. wanted says whether there is anything to sign.
func (s *Signer) Check(wanted bool) error {
	switch {
	case s.Key == "" && (s.Cert != "" || s.PassphraseFile != ""):
		return session.Usagef("--module-cert and --module-passphrase-file belong to a key: give --module-key too")
	case s.Key != "" && !wanted:
		return session.Usagef("--module-key signs modules that are compiled ahead of time: give --kernel too")
	}
	return nil
}

// Load reads the key; the signer is nil when there is none.
func (s *Signer) Load(a *session.App) (*sign.Signer, error) {
	return open(a, "module", s.Key, s.PassphraseFile, a.Getenv(PassphraseVariable),
		func(pass keyfile.Passphrase) (*sign.Signer, io.Closer, error) {
			return pkcs11.Open(s.Key, s.Cert, pass)
		},
		func(pass keyfile.Passphrase) (*sign.Signer, error) { return sign.LoadSigner(s.Key, s.Cert, pass) })
}

// ImageKey says which private key signs images and bundles.
type ImageKey struct{ Key, PassphraseFile string }

// AddTo declares the flags. what is what the key signs.
func (k *ImageKey) AddTo(f *pflag.FlagSet, what string) {
	f.StringVar(&k.Key, "image-key", "", "sign "+what+" with this private key: `FILE` (PEM, DER, PKCS#12, cosign's) or a pkcs11: URI")
	f.StringVar(&k.PassphraseFile, "image-passphrase-file", "", "FILE with the key's passphrase or PIN (or "+ImagePassphraseVariable+" in the environment)")
	session.Hide(f, "image-passphrase-file")
}

// Load reads the key and makes the signer, which is nil when none was given.
func (k *ImageKey) Load(a *session.App) (signature.Signer, error) {
	if k.Key == "" && k.PassphraseFile != "" {
		return nil, session.Usagef("--image-passphrase-file belongs to a key: give --image-key too")
	}
	key, err := open(a, "image", k.Key, k.PassphraseFile, a.Getenv(ImagePassphraseVariable),
		func(pass keyfile.Passphrase) (crypto.Signer, io.Closer, error) { return pkcs11.OpenKey(k.Key, pass) },
		func(pass keyfile.Passphrase) (crypto.Signer, error) {
			key, _, err := keyfile.LoadPrivate(k.Key, pass)
			return key, err
		})
	if err != nil || key == nil {
		return nil, err
	}
	signer, err := signature.NewKeySigner(key)
	if err != nil {
		return nil, session.Usagef("--image-key: %w", err)
	}
	return signer, nil
}

// open opens the key of --NAME-key on a token, until the command ends, or in a file; none where
// there is none. A mistake in the passphrase's file is found also for a key without a passphrase,
// which does not ask for one.
func open[T any](a *session.App, name, key, passFile, ofEnvironment string, token func(keyfile.Passphrase) (T, io.Closer, error),
	file func(keyfile.Passphrase) (T, error)) (opened T, err error) {
	var none T
	if key == "" {
		return none, nil
	}
	var pass keyfile.Passphrase
	if passFile != "" {
		pass = keyfile.PassphraseFile(passFile)
		if _, err := pass(); err != nil {
			return none, session.Usagef("--%s-passphrase-file: %w", name, err)
		}
	} else if ofEnvironment != "" {
		pass = func() ([]byte, error) { return []byte(ofEnvironment), nil }
	}
	if strings.HasPrefix(key, "pkcs11:") {
		var used io.Closer
		opened, used, err = token(pass)
		if err == nil {
			a.Defer(used.Close)
		}
	} else {
		opened, err = file(pass)
	}
	if errors.Is(err, keyfile.ErrPassphrase) {
		err = fmt.Errorf("%w; it comes from --%s-passphrase-file FILE or the variable DRIVER_%s_PASSPHRASE", err, name, strings.ToUpper(name))
	}
	if err != nil {
		return none, session.Usagef("--%s-key: %w", name, err)
	}
	return opened, nil
}

// Trust says which public keys are trusted.
type Trust struct {
	Keys     []string // files
	Unsigned bool
}

// AddTo declares the flags.
func (k *Trust) AddTo(f *pflag.FlagSet) {
	f.StringArrayVar(&k.Keys, "key", nil, "`FILE` with public keys or certificates, one of which must have signed it (repeatable)")
	f.BoolVar(&k.Unsigned, "allow-unsigned", false, "do not look at signatures")
}

// Load reads the keys; there are none with --allow-unsigned.
func (k *Trust) Load() ([]crypto.PublicKey, error) {
	if k.Unsigned == (len(k.Keys) > 0) {
		return nil, session.Usagef("give --key FILE, or --allow-unsigned if who made it does not matter")
	}
	return PublicKeys("--key", k.Keys...)
}

// PublicKeys reads the files of a flag.
func PublicKeys(flag string, files ...string) (all []crypto.PublicKey, err error) {
	for _, file := range files {
		keys, err := keyfile.LoadPublic(file, time.Now())
		for _, key := range keys {
			if kerr := signature.CheckKey(key); kerr != nil {
				err = errors.Join(err, fmt.Errorf("%s: %w", file, kerr))
			}
		}
		if err != nil {
			return nil, session.Usagef("%s: %w", flag, err)
		}
		all = append(all, keys...)
	}
	return all, nil
}

// Certificates reads the files of --module-cert.
func Certificates(files ...string) (all []*x509.Certificate, err error) {
	for _, file := range files {
		certs, err := keyfile.LoadCertificates(file)
		if err != nil {
			return nil, session.Usagef("--module-cert: %w", err)
		}
		all = append(all, certs...)
	}
	return all, nil
}

// Certificate reads the only certificate of --module-cert.
func Certificate(file string) (*x509.Certificate, error) {
	all, err := Certificates(file)
	if err == nil && len(all) != 1 {
		err = session.Usagef("--module-cert %s: it holds %d certificates, give the one of the key", file, len(all))
	}
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// ImageSigner says who signs images, and in which format.
type ImageSigner struct {
	ImageKey
	Program, PublicKey string
	Format             signature.Format
}

// AddTo declares the flags.
func (s *ImageSigner) AddTo(f *pflag.FlagSet) {
	s.ImageKey.AddTo(f, "the image itself")
	f.StringVar(&s.Program, "image-signer", "", "sign the image itself with a `PROGRAM`, which reads what to sign and prints the signature")
	f.StringVar(&s.PublicKey, "image-public-key", "", "FILE with the public key of the one who signs elsewhere")
	session.Choice(f, &s.Format, "signature-format", "", "tags .sig and .att, which all verifiers read, or sigstore's referrers: legacy, bundle or both")
	session.Hide(f, "signature-format", "image-public-key")
}

// Given says whether images are to be signed.
func (s *ImageSigner) Given() bool { return s.Key != "" || s.Program != "" }

// Check finds mistakes that need no key. detached says that a public key makes sense without a
// program.
func (s *ImageSigner) Check(detached bool) error {
	switch {
	case s.Key != "" && s.Program != "":
		return session.Usagef("--image-key and --image-signer both say who signs: give one")
	case s.PublicKey != "" && s.Program == "" && !detached:
		return session.Usagef("--image-public-key belongs to a signer elsewhere: give --image-signer too")
	case s.Program != "" && s.PublicKey == "" && s.Format != signature.Legacy:
		return session.Usagef("--signature-format %s: a bundle names the key: give --image-public-key too", s.Format)
	case !s.Given() && !detached && s.Format != signature.Legacy:
		return session.Usagef("--signature-format is of a signature: give --image-key or --image-signer too")
	}
	return nil
}

// Load prepares the signer, which is nil if there is none; all that can be wrong with keys is found
// now.
func (s *ImageSigner) Load(a *session.App) (signature.Signer, error) {
	if s.Program == "" {
		signer, err := s.ImageKey.Load(a)
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
	if err == nil && len(keys) > 1 {
		err = session.Usagef("--image-public-key %s holds %d keys: give the one of the signer", s.PublicKey, len(keys))
	}
	if err != nil {
		return nil, err
	}
	return keys[0], nil
}
