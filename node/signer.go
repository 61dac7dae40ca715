package node

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/driver-container/driver-container/kmod/kbuild"
	"github.com/driver-container/driver-container/kmod/sign"
	"github.com/driver-container/driver-container/node/preflight"
)

// sigHash is the kernel's option that names the hash for signatures of modules.
const sigHash = "CONFIG_MODULE_SIG_HASH"

// loadSigner reads the key that was mounted for the modules that are compiled here; nil when there is none.
func loadSigner(cfg Config, say func(string, ...any)) (*sign.Signer, error) {
	if cfg.SigningKey == "" {
		return nil, nil //nolint:nilnil // no key is no error
	}
	info, err := os.Stat(cfg.SigningKey)
	if err != nil {
		return nil, fmt.Errorf("%w: --module-signing-key: %w", ErrConfig, err)
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		say("warning: the key in %s can be read by others than its owner (mode %04o): mount it with mode 0400", cfg.SigningKey, mode)
	}
	pass := sign.Passphrase(cfg.SigningPassphrase)
	if cfg.SigningPassphraseFile != "" {
		pass = func() ([]byte, error) { return readPassphrase(cfg.SigningPassphraseFile) }
	}
	signer, err := sign.LoadSigner(cfg.SigningKey, cfg.SigningCert, pass)
	if err != nil {
		return nil, fmt.Errorf("%w: the key that is to sign modules: %w", ErrConfig, err)
	}
	return signer, nil
}

// readPassphrase reads a file without the end of its line.
func readPassphrase(path string) (pass []byte, err error) {
	const most = 4 << 10
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if pass, err = io.ReadAll(io.LimitReader(f, most+1)); err != nil {
		return nil, err
	}
	if len(pass) > most {
		return nil, fmt.Errorf("%s is larger than %d bytes: it should hold a passphrase only", path, most)
	}
	return bytes.TrimRight(pass, "\r\n"), nil
}

// Signer is the mounted key's, but for modules that it has signed, and those of an image that were signed when it was built.
func (s *supply) Signer(set *kbuild.Set, source string) *x509.Certificate {
	switch {
	case s.signer == nil:
		return nil
	case set == nil:
		return s.signer.Certificate
	case bytes.Equal(set.Certificate, s.signer.Certificate.Raw),
		source == fromImage && isSigned(set),
		set.SigHash == "": // the kernel knows no signatures
		return nil
	}
	return s.signer.Certificate
}

func isSigned(set *kbuild.Set) bool {
	f, ok := set.File("nvidia")
	return len(set.Certificate) > 0 || ok && f.Info.Signed
}

// Sign makes a signed copy of the modules in the scratch folder.
func (s *supply) Sign(ctx context.Context, set *kbuild.Set) (*kbuild.Set, error) {
	hash, err := sign.ParseHash(set.SigHash)
	if err != nil {
		return nil, fmt.Errorf("sign the modules for kernel %s: %w", set.Key.Release, err)
	}
	work := filepath.Join(s.work(), "signed")
	if err := errors.Join(os.RemoveAll(work), os.MkdirAll(work, 0o700)); err != nil {
		return nil, fmt.Errorf("make room for signed modules: %w", err)
	}
	s.say("signing the modules with the key of %s (%s)", nameOf(s.signer.Certificate), set.SigHash)
	return set.Sign(ctx, work, s.signer.Certificate, func(ctx context.Context, f kbuild.File) ([]byte, error) {
		return s.signer.SignFile(ctx, f.Path, hash)
	})
}

// certificateOf is the certificate of a set's signatures, nil when there is none or it cannot be read.
func certificateOf(set *kbuild.Set) *x509.Certificate {
	if set == nil || len(set.Certificate) == 0 {
		return nil
	}
	cert, err := x509.ParseCertificate(set.Certificate)
	if err != nil {
		return nil
	}
	return cert
}

func nameOf(cert *x509.Certificate) string {
	if cert.Subject.CommonName != "" {
		return cert.Subject.CommonName
	}
	return cert.Subject.String()
}

// signerOf says for people who signed a set: "ACME modules (sha256, key 1A:AE)"; "" when nobody did.
func signerOf(set *kbuild.Set) string {
	if set == nil {
		return ""
	}
	f, ok := set.File("nvidia")
	if !ok || !f.Info.Signed {
		return ""
	}
	name, id := f.Info.Signer, f.Info.SigKeyID
	if cert := certificateOf(set); cert != nil {
		name = nameOf(cert)
		if len(cert.SubjectKeyId) > 0 {
			id = sign.Colons(cert.SubjectKeyId)
		}
	}
	return fmt.Sprintf("%s (%s, key %s)", name, f.Info.SigHash, id)
}

// leaveCertificate puts the certificate of a key that the kernel does not know where mokutil on the host can take it.
func (n *Node) leaveCertificate(checks []preflight.Check) {
	for _, c := range checks {
		if c.Status != preflight.Blocked || c.Signatures == nil || c.Signatures.Enrol == "" {
			continue
		}
		cert := n.supplier.Signer(n.found, n.source)
		if cert == nil {
			cert = certificateOf(n.found)
		}
		if cert == nil {
			return
		}
		path := filepath.Join(n.cfg.StateDir, preflight.CertificateFile)
		err := os.MkdirAll(n.cfg.StateDir, 0o755)
		if err == nil {
			err = replaceFile(path, cert.Raw, (*os.File).Sync)
		}
		if err != nil {
			n.warn("the certificate of %s could not be left for mokutil: %v", nameOf(cert), err)
			return
		}
		n.say("the certificate of %s is in %s", nameOf(cert), path)
		if yes, err := mounted(n.cfg.StateDir); err == nil && !yes {
			n.warn("%s is not a folder of the host: copy %s out of the container, or mount it", n.cfg.StateDir, path)
		}
	}
}
