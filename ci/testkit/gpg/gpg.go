// Package gpg makes keys with GnuPG, and signs files and rpm packages with them, for tests.
package gpg

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/driver-container/driver-container/ci/testkit/tool"
)

// Key is a key without a passphrase that does not expire.
type Key struct {
	Public      []byte // armoured
	Fingerprint string // in capital hex

	home string // gpg's folder
}

// New makes a key with an algorithm of gpg's, such as rsa3072 and ed25519, in a new folder. Sockets of gpg's
// agent need short paths, so it is in the folder for temporary files.
func New(ctx context.Context, algorithm string) (*Key, error) {
	home, err := os.MkdirTemp("", "gpg")
	if err != nil {
		return nil, err
	}
	k := &Key{home: home}
	_, err = k.gpg(ctx, "--passphrase", "", "--quick-generate-key", "tests <tests@builder.example>", algorithm, "sign", "never")
	list, err2 := k.gpg(ctx, "--with-colons", "--list-keys")
	public, err3 := k.gpg(ctx, "--armor", "--export")
	_, fields, found := strings.Cut(list, "\nfpr:")
	if err := errors.Join(err, err2, err3); err != nil || !found {
		k.Close(ctx)
		return nil, fmt.Errorf("make a key with gpg, which lists %q: %w", list, err)
	}
	k.Public, k.Fingerprint = []byte(public), strings.Split(fields, ":")[8]
	return k, nil
}

// Close ends gpg's agent and deletes the secret key.
func (k *Key) Close(ctx context.Context) {
	// if this fails, the agent ends when its folder has been removed
	_, _ = tool.Run(context.WithoutCancel(ctx), "", nil, "gpgconf", "--homedir", k.home, "--kill", "all")
	_ = os.RemoveAll(k.home)
}

func (k *Key) gpg(ctx context.Context, args ...string) (string, error) {
	return tool.Run(ctx, "", nil, append([]string{"gpg", "--homedir", k.home, "--batch", "--no-tty", "--quiet", "--yes", "--pinentry-mode", "loopback"}, args...)...)
}

// Packages signs rpm packages in place. With the flag --rpmv3 it signs header and payload, as rpm before 4.14
// does, as well as the header.
func (k *Key) Packages(ctx context.Context, files []string, flags ...string) error {
	program, err := exec.LookPath("gpg") // Debian's rpm looks for gpg2
	if err != nil {
		return err
	}
	args := []string{"rpmsign", "--addsign", "--define", "__gpg " + program, "--define", "_gpg_name " + k.Fingerprint, "--define", "_gpg_path " + k.home, "--define", "_gpg_digest_algo sha256"}
	if _, err := tool.Run(ctx, "", []string{"GNUPGHOME=" + k.home}, append(append(args, flags...), files...)...); err != nil {
		return fmt.Errorf("sign %d packages: %w", len(files), err)
	}
	return nil
}

// Detached writes the signature FILE.asc beside a file.
func (k *Key) Detached(ctx context.Context, file string) error {
	_, err := k.gpg(ctx, "--armor", "--detach-sign", "--output", file+".asc", file)
	return err
}

// Clear writes a file that contains its signature, like InRelease.
func (k *Key) Clear(ctx context.Context, file, signed string) error {
	_, err := k.gpg(ctx, "--clearsign", "--digest-algo", "sha512", "--output", signed, file)
	return err
}

// Binary returns the public key in the format of keyring files.
func (k *Key) Binary(ctx context.Context) ([]byte, error) {
	text, err := k.gpg(ctx, "--export")
	return []byte(text), err
}
