package realrepo

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/tool"
)

// Key is a key of GnuPG without a passphrase that does not expire.
type Key struct {
	Public      []byte // armoured
	Fingerprint string // in capital hex

	home string // gpg's folder
}

// NewKey makes a key with an algorithm of gpg's, such as rsa3072 and ed25519. The secret key is
// deleted after the test.
func NewKey(t testing.TB, algorithm string) *Key {
	t.Helper()
	home, err := os.MkdirTemp("", "gpg") //nolint:usetesting // sockets of gpg's agent need short paths
	require.NoError(t, err)
	k := &Key{home: home}
	t.Cleanup(func() { // if gpgconf fails, the agent ends when its folder has been removed
		_, _ = tool.Run(context.WithoutCancel(t.Context()), "", nil, "gpgconf", "--homedir", home, "--kill", "all")
		_ = os.RemoveAll(home)
	})
	k.gpg(t, "--passphrase", "", "--quick-generate-key", "tests <tests@builder.example>", algorithm, "sign", "never")
	_, fields, found := strings.Cut(k.gpg(t, "--with-colons", "--list-keys"), "\nfpr:")
	if !found {
		t.Fatal("gpg does not list the key that it made")
	}
	k.Public = []byte(k.gpg(t, "--armor", "--export"))
	k.Fingerprint = strings.Split(fields, ":")[8]
	return k
}

func (k *Key) gpg(t testing.TB, args ...string) string {
	t.Helper()
	args = append(
		[]string{
			"gpg",
			"--homedir",
			k.home,
			"--batch",
			"--no-tty",
			"--quiet",
			"--yes",
			"--pinentry-mode",
			"loopback",
		},
		args...)
	return require.Value(tool.Run(t.Context(), "", nil, args...))(t)
}

// SignPackages signs rpm packages in place. With the flag --rpmv3 it signs header and payload, as
// rpm before 4.14 does, as well as the header.
func (k *Key) SignPackages(t testing.TB, files []string, flags ...string) {
	t.Helper()
	program := require.Value(exec.LookPath("gpg"))(t) // Debian's rpm looks for gpg2
	args := []string{"rpmsign", "--addsign"}
	for _, define := range []string{"__gpg " + program, "_gpg_name " + k.Fingerprint, "_gpg_path " + k.home, "_gpg_digest_algo sha256"} {
		args = append(args, "--define", define)
	}
	require.Value(
		tool.Run(
			t.Context(),
			"",
			[]string{"GNUPGHOME=" + k.home},
			append(append(args, flags...), files...)...),
	)(t)
}
