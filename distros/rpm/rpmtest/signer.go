package rpmtest

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// Signer signs packages and files with a gpg key of its own, which has no passphrase.
type Signer struct {
	Fingerprint string // hex, in capitals
	Public      []byte // armoured
	home        string // gpg's folder
	at          time.Time
}

// KeyOptions are the properties of a key. The zero value is an RSA key of 2048 bits that does not expire.
type KeyOptions struct {
	Name      string // the owner's; "" is "rpmtest"
	Algorithm string // gpg's name, "rsa3072", "ed25519", "dsa2048"; "" is rsa2048
	// Created is the time at which the key was created; zero: now. Signatures get the same time, so that a key
	// that has expired since can sign.
	Created  time.Time
	Lifetime time.Duration // 0: does not expire
}

// NewSigner makes a key in a new folder. Sockets of gpg's agent need short paths, so it is in the folder for
// temporary files.
func NewSigner(ctx context.Context, o KeyOptions) (*Signer, error) {
	home, err := os.MkdirTemp("", "gpg-")
	if err != nil {
		return nil, err
	}
	s := &Signer{home: home, at: o.Created}
	if err := s.generate(ctx, o); err != nil {
		s.Close(ctx)
		return nil, fmt.Errorf("make a key to sign packages with: %w", err)
	}
	return s, nil
}

func (s *Signer) generate(ctx context.Context, o KeyOptions) error {
	name, end := cmp.Or(o.Name, "rpmtest"), "never"
	if o.Lifetime != 0 {
		end = fmt.Sprintf("seconds=%d", int(o.Lifetime/time.Second))
	}
	if _, err := s.GPG(ctx, "--passphrase", "", "--quick-generate-key", name+" <"+name+"@builder.example>", cmp.Or(o.Algorithm, "rsa2048"), "sign", end); err != nil {
		return err
	}
	list, err := s.GPG(ctx, "--with-colons", "--list-keys")
	if err != nil {
		return err
	}
	_, list, _ = strings.Cut(list, "\nfpr:")
	s.Fingerprint = strings.Trim(strings.SplitN(list, "\n", 2)[0], ":")
	public, err := s.GPG(ctx, "--armor", "--export")
	s.Public = []byte(public)
	return err
}

// Close ends gpg's agent and deletes the secret key.
func (s *Signer) Close(ctx context.Context) {
	// if this fails, the agent ends when its folder has been removed
	_ = exec.CommandContext(context.WithoutCancel(ctx), "gpgconf", "--homedir", s.home, "--kill", "all").Run()
	_ = os.RemoveAll(s.home)
}

// flags returns the arguments that every call of gpg needs.
func (s *Signer) flags() []string {
	out := []string{"--batch", "--no-tty", "--quiet", "--yes", "--no-permission-warning", "--pinentry-mode", "loopback", "--homedir", s.home}
	if !s.at.IsZero() {
		out = append(out, "--faked-system-time", s.at.UTC().Format("20060102T150405")+"!")
	}
	return out
}

// GPG runs gpg with the key and returns its stdout.
func (s *Signer) GPG(ctx context.Context, args ...string) (string, error) {
	return Program(ctx, "", "gpg", append(s.flags(), args...)...)
}

// Sign signs packages in place, as rpmsign does: over the header, or, with "--rpmv3" in more, as rpm before
// 4.14 did, over header and payload as well.
func (s *Signer) Sign(ctx context.Context, packages []string, more ...string) error {
	gpg, err := exec.LookPath("gpg") // Debian's rpm looks for gpg2
	if err != nil {
		return err
	}
	args := []string{"--addsign", "--define", "__gpg " + gpg, "--define", "_gpg_name " + s.Fingerprint, "--define", "_gpg_path " + s.home}
	args = append(args, "--define", "_gpg_sign_cmd_extra_args "+strings.Join(s.flags(), " "))
	if _, err := Program(ctx, "", "rpmsign", append(append(args, more...), packages...)...); err != nil {
		return fmt.Errorf("sign %d packages: %w", len(packages), err)
	}
	return nil
}

// Detach writes the armoured signature of a file to the file's name plus .asc.
func (s *Signer) Detach(ctx context.Context, file string) error {
	_, err := s.GPG(ctx, "--armor", "--output", file+".asc", "--detach-sign", file)
	return err
}

// Program runs a program of the machine in a folder and returns its stdout; the error has its stderr.
func Program(ctx context.Context, dir, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	var stderr strings.Builder
	cmd.Dir, cmd.Stderr, cmd.Env = dir, &stderr, append(os.Environ(), "LC_ALL=C", "SOURCE_DATE_EPOCH=1700000000")
	out, err := cmd.Output()
	if err != nil {
		said := stderr.String()
		return "", fmt.Errorf("%s: %w: %s", program, err, said[max(0, len(said)-4000):])
	}
	return string(out), nil
}
