package rpmtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/require"
)

// Key is a gpg key that signs packages and repositories. It has no passphrase and is removed after the test.
type Key struct {
	Fingerprint string // hex, in capitals
	Public      []byte // armoured
	home        string
	at          time.Time // time of its signatures; zero: now
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

// NewKey generates a key.
func NewKey(t testing.TB, o KeyOptions) *Key {
	t.Helper()
	// Not t.TempDir: the path of the agent's socket must fit in 108 bytes.
	home, err := os.MkdirTemp("", "gpg") //nolint:usetesting // see above
	require.NoError(t, err)
	k := &Key{home: home, at: o.Created}
	t.Cleanup(func() {
		_ = exec.Command("gpgconf", "--homedir", home, "--kill", "all").Run() // it is fine if nothing runs
		_ = os.RemoveAll(home)
	})
	name, algorithm, end := "rpmtest", "rsa2048", "never"
	if o.Name != "" {
		name = o.Name
	}
	if o.Algorithm != "" {
		algorithm = o.Algorithm
	}
	if o.Lifetime != 0 {
		end = fmt.Sprintf("seconds=%d", int(o.Lifetime/time.Second))
	}
	k.gpg(t, "--passphrase", "", "--quick-generate-key", name+" <"+name+"@localhost>", algorithm, "sign", end)
	for line := range strings.Lines(k.gpg(t, "--with-colons", "--list-keys")) {
		if fields := strings.Split(line, ":"); fields[0] == "fpr" {
			k.Fingerprint = fields[9]
			break
		}
	}
	k.Public = []byte(k.gpg(t, "--armor", "--export", k.Fingerprint))
	return k
}

// flags returns the arguments that every call of gpg needs.
func (k *Key) flags() []string {
	out := []string{"--batch", "--no-tty", "--quiet", "--no-permission-warning", "--pinentry-mode", "loopback", "--homedir", k.home}
	if !k.at.IsZero() {
		out = append(out, "--faked-system-time", k.at.UTC().Format("20060102T150405")+"!")
	}
	return out
}

func (k *Key) gpg(t testing.TB, args ...string) string {
	t.Helper()
	return Run(t, nil, "gpg", append(k.flags(), args...)...)
}

// Sign signs packages in place, as rpmsign does: over the header, and over header and payload.
func (k *Key) Sign(t testing.TB, packages ...string) {
	t.Helper()
	k.sign(t, packages)
}

// SignV3 signs packages in the format of rpm before 4.14, with a signature of header and payload as well.
func (k *Key) SignV3(t testing.TB, packages ...string) {
	t.Helper()
	k.sign(t, packages, "--rpmv3")
}

func (k *Key) sign(t testing.TB, packages []string, more ...string) {
	t.Helper()
	gpg := require.Value(exec.LookPath("gpg"))(t)
	args := []string{"--addsign", "--define", "__gpg " + gpg, "--define", "_gpg_name " + k.Fingerprint, "--define", "_gpg_path " + k.home}
	args = append(args, "--define", "_gpg_sign_cmd_extra_args "+strings.Join(k.flags(), " "))
	Run(t, []string{"GNUPGHOME=" + k.home}, "rpmsign", append(append(args, more...), packages...)...)
}

// Detach signs a file; it writes the armoured signature to the file's name plus .asc.
func (k *Key) Detach(t testing.TB, file string) {
	t.Helper()
	k.gpg(t, "--yes", "--local-user", k.Fingerprint, "--armor", "--output", file+".asc", "--detach-sign", file)
}

// Write writes the armoured public key to a file below dir and returns its path.
func (k *Key) Write(t testing.TB, dir string) string {
	t.Helper()
	path := filepath.Join(dir, "RPM-GPG-KEY-"+k.Fingerprint[len(k.Fingerprint)-8:])
	require.NoError(t, os.MkdirAll(dir, 0o755))
	require.NoError(t, os.WriteFile(path, k.Public, 0o644))
	return path
}
