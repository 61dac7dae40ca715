package rpmtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Key is a gpg key that signs packages and repositories. It has no passphrase and is gone after the test.
type Key struct {
	Fingerprint string // capital hex
	Public      []byte // armoured
	home        string
	at          time.Time // when it signs; zero: now
}

// KeyOptions say what a key is like. The zero value is an RSA key of 2048 bits without an end.
type KeyOptions struct {
	Name      string        // of its owner; "" is "rpmtest"
	Algorithm string        // as gpg calls it, "rsa3072", "ed25519", "dsa2048"; "" is rsa2048
	Created   time.Time     // zero: now. Signatures are made at that time, too, so that a key which has expired since can sign
	Lifetime  time.Duration // 0: no end
}

// NewKey makes a key.
func NewKey(t testing.TB, o KeyOptions) *Key {
	t.Helper()
	// Not t.TempDir: the path of the agent's socket must fit in 108 bytes.
	home, err := os.MkdirTemp("", "gpg") //nolint:usetesting // see above
	if err != nil {
		t.Fatal(err)
	}
	k := &Key{home: home, at: o.Created}
	t.Cleanup(func() {
		_ = exec.Command("gpgconf", "--homedir", home, "--kill", "all").Run() // nothing runs: fine, too
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

// flags are what gpg needs always.
func (k *Key) flags() []string {
	out := []string{"--batch", "--no-tty", "--quiet", "--no-permission-warning", "--pinentry-mode", "loopback", "--homedir", k.home}
	if !k.at.IsZero() {
		out = append(out, "--faked-system-time", k.at.UTC().Format("20060102T150405")+"!")
	}
	return out
}

func (k *Key) gpg(t testing.TB, args ...string) string {
	t.Helper()
	return run(t, nil, "gpg", append(k.flags(), args...)...)
}

// Sign signs packages where they lie, as rpmsign does: over the header, and over header and payload.
func (k *Key) Sign(t testing.TB, packages ...string) {
	t.Helper()
	k.sign(t, packages)
}

// SignV3 signs packages the way of rpm before 4.14: the signature of header and payload is there, too.
func (k *Key) SignV3(t testing.TB, packages ...string) {
	t.Helper()
	k.sign(t, packages, "--rpmv3")
}

func (k *Key) sign(t testing.TB, packages []string, more ...string) {
	t.Helper()
	gpg, err := exec.LookPath("gpg")
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"--addsign", "--define", "__gpg " + gpg, "--define", "_gpg_name " + k.Fingerprint, "--define", "_gpg_path " + k.home}
	args = append(args, "--define", "_gpg_sign_cmd_extra_args "+strings.Join(k.flags(), " "))
	run(t, []string{"GNUPGHOME=" + k.home}, "rpmsign", append(append(args, more...), packages...)...)
}

// Detach signs a file; the armoured signature lies beside it with .asc added to its name.
func (k *Key) Detach(t testing.TB, file string) {
	t.Helper()
	k.gpg(t, "--yes", "--local-user", k.Fingerprint, "--armor", "--output", file+".asc", "--detach-sign", file)
}

// Write writes the armoured public key to a file below dir and returns its path.
func (k *Key) Write(t testing.TB, dir string) string {
	t.Helper()
	path := filepath.Join(dir, "RPM-GPG-KEY-"+k.Fingerprint[len(k.Fingerprint)-8:])
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, k.Public, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}
