package host

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/driver-container/driver-container/kmod/kbuild"
	"github.com/driver-container/driver-container/kmod/sign"
	"github.com/driver-container/driver-container/kmod/sign/keyfile"
	"github.com/driver-container/driver-container/node/config"
	"github.com/driver-container/driver-container/node/status"
)

// loadSigner reads the mounted key that signs modules which are compiled here; nil if there is
// none.
func loadSigner(cfg config.Config, log *slog.Logger) (*sign.Signer, error) {
	if cfg.SigningKey == "" {
		return nil, nil //nolint:nilnil // a missing key is not an error
	}
	info, err := os.Stat(cfg.SigningKey)
	if err != nil {
		return nil, fmt.Errorf("%w: --module-signing-key: %w", config.ErrConfig, err)
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		log.Warn(
			"the signing key can be read by others than its owner: mount it with mode 0400",
			"path",
			cfg.SigningKey,
			"mode",
			fmt.Sprintf("%04o", mode),
		)
	}
	if err := apart(cfg); err != nil {
		return nil, err
	}
	pass := keyfile.Passphrase(cfg.SigningPassphrase)
	if cfg.SigningPassphraseFile != "" {
		pass = keyfile.PassphraseFile(cfg.SigningPassphraseFile)
	}
	signer, err := sign.LoadSigner(cfg.SigningKey, cfg.SigningCert, pass)
	if err != nil {
		return nil, fmt.Errorf("%w: the key that is to sign modules: %w", config.ErrConfig, err)
	}
	return signer, nil
}

// apart refuses a key that the Driver Toolkit container could read: it signs what that container
// makes.
func apart(cfg config.Config) error {
	shared, err := filepath.EvalSymlinks(cfg.Toolkit)
	if cfg.Toolkit == "" || err != nil {
		return nil //nolint:nilerr // there is no such folder
	}
	for flag, file := range map[string]string{"--module-signing-key": cfg.SigningKey, "--module-signing-passphrase-file": cfg.SigningPassphraseFile} {
		target, err := filepath.EvalSymlinks(file)
		if file == "" || err != nil {
			continue // the reader of the file says what is wrong
		}
		if name, err := filepath.Rel(shared, target); err == nil && filepath.IsLocal(name) {
			return fmt.Errorf(
				"%w: %s is %s, in the folder that is shared with the Driver Toolkit container: mount it elsewhere",
				config.ErrConfig,
				flag,
				file,
			)
		}
	}
	return nil
}

// Signer returns the certificate of the mounted key, except for modules that this key has signed,
// for modules of an image that were signed when the image was built, and for those of a mounted
// image: their signature is what proves where they come from.
func (s *supply) Signer(set *kbuild.Set, source string) *x509.Certificate {
	switch {
	case s.signer == nil:
		return nil
	case set == nil:
		return s.signer.Certificate
	case bytes.Equal(set.Certificate, s.signer.Certificate.Raw),
		source == status.FromMounted,
		source == status.FromImage && isSigned(set),
		set.SigHash == "": // the kernel does not check signatures
		return nil
	}
	return s.signer.Certificate
}

func isSigned(set *kbuild.Set) bool {
	f, ok := set.File("nvidia")
	return len(set.Certificate) > 0 || ok && f.Info.Signed
}

// Sign writes a signed copy of the modules into the scratch folder.
func (s *supply) Sign(ctx context.Context, set *kbuild.Set) (*kbuild.Set, error) {
	hash, err := sign.ParseHash(set.SigHash)
	if err != nil {
		return nil, fmt.Errorf("sign the modules for kernel %s: %w", set.Key.Release, err)
	}
	work := filepath.Join(s.work(), "signed")
	if err := errors.Join(os.RemoveAll(work), os.MkdirAll(work, 0o700)); err != nil {
		return nil, fmt.Errorf("make room for signed modules: %w", err)
	}
	s.log.Info(
		"signing the modules",
		"certificate",
		sign.Owner(s.signer.Certificate),
		"hash",
		set.SigHash,
	)
	return set.Sign(
		ctx,
		work,
		s.signer.Certificate,
		func(ctx context.Context, f kbuild.File) ([]byte, error) {
			return s.signer.SignFile(ctx, f.Path, hash)
		},
	)
}
