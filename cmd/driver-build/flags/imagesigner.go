package flags

import (
	"crypto"
	"os/exec"
	"time"

	"github.com/spf13/pflag"

	"github.com/driver-container/driver-container/cmd/driver-build/session"
	"github.com/driver-container/driver-container/images/signature"
)

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
	session.FormerName(f, "sign-with", "image-signer")
	session.Hide(f, "signature-format", "image-public-key")
}

// Given says whether images are to be signed.
func (s *ImageSigner) Given() bool { return s.Key != "" || s.Program != "" }

// Check finds mistakes that need no key. detached says that a public key makes sense without a program.
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

// Load prepares the signer, which is nil if there is none; all that can be wrong with keys is found now.
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
	keys, err := PublicKeys("--image-public-key", time.Now(), s.PublicKey)
	if err == nil && len(keys) > 1 {
		err = session.Usagef("--image-public-key %s holds %d keys: give the one of the signer", s.PublicKey, len(keys))
	}
	if err != nil {
		return nil, err
	}
	return keys[0], nil
}
