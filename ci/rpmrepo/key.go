package rpmrepo

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Signer signs packages and files with a key of its own, by gpg.
type Signer struct {
	Key  []byte // the public key, armoured
	home string // gpg's folder
}

const signerName = "rpmrepo (tests) <rpmrepo@builder.example>"

// NewSigner makes a key in a new folder. Sockets of gpg's agent need short paths, so it is in the folder for
// temporary files.
func NewSigner(ctx context.Context) (*Signer, error) {
	home, err := os.MkdirTemp("", "rpmrepo-gpg-")
	if err != nil {
		return nil, err
	}
	s := &Signer{home: home}
	if _, err := s.gpg(ctx, "--quick-generate-key", "--passphrase", "", signerName, "rsa3072", "sign", "never"); err != nil {
		s.Close(ctx)
		return nil, fmt.Errorf("make a key to sign packages with: %w", err)
	}
	text, err := s.gpg(ctx, "--armor", "--export")
	if err != nil {
		s.Close(ctx)
		return nil, err
	}
	s.Key = []byte(text)
	return s, nil
}

// Close ends gpg's agent and deletes the secret key.
func (s *Signer) Close(ctx context.Context) {
	// if this fails, the agent ends when its folder has been removed
	_, _ = Run(context.WithoutCancel(ctx), "", "gpgconf", "--homedir", s.home, "--kill", "all")
	_ = os.RemoveAll(s.home)
}

func (s *Signer) gpg(ctx context.Context, args ...string) (string, error) {
	return Run(ctx, "", "gpg", append([]string{"--homedir", s.home, "--batch", "--quiet", "--yes", "--pinentry-mode", "loopback"}, args...)...)
}

// packages signs all packages in a folder.
func (s *Signer) packages(ctx context.Context, sys system, dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "*.rpm"))
	if err != nil || len(files) == 0 {
		return fmt.Errorf("no packages to sign in %s", dir)
	}
	gpg, err := exec.LookPath("gpg") // Debian's rpm looks for gpg2
	if err != nil {
		return err
	}
	args := []string{"--addsign", "--define", "__gpg " + gpg, "--define", "_gpg_name " + signerName, "--define", "_gpg_path " + s.home, "--define", "_gpg_digest_algo sha256"}
	if sys.oldSigns {
		args = append(args, "--rpmv3")
	}
	if _, err := Run(ctx, "", "rpmsign", append(args, files...)...); err != nil {
		return fmt.Errorf("sign %d packages: %w", len(files), err)
	}
	return nil
}

// Detached writes the signature FILE.asc beside a file.
func (s *Signer) Detached(ctx context.Context, file string) error {
	_, err := s.gpg(ctx, "--armor", "--detach-sign", "--output", file+".asc", file)
	return err
}

// Clear writes a file that contains its signature, like InRelease.
func (s *Signer) Clear(ctx context.Context, file, signed string) error {
	_, err := s.gpg(ctx, "--clearsign", "--digest-algo", "sha512", "--output", signed, file)
	return err
}

// Fingerprint returns the key's fingerprint, in capital hex.
func (s *Signer) Fingerprint(ctx context.Context) (string, error) {
	text, err := s.gpg(ctx, "--with-colons", "--fingerprint")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(text) {
		if fields := strings.Split(line, ":"); fields[0] == "fpr" && len(fields) > 9 {
			return fields[9], nil
		}
	}
	return "", fmt.Errorf("gpg shows no fingerprint in %q", text)
}

// Binary returns the public key in the format of keyring files.
func (s *Signer) Binary(ctx context.Context) ([]byte, error) {
	text, err := s.gpg(ctx, "--export")
	return []byte(text), err
}
