package rpmtest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/driver-container/driver-container/distros/repotest"
)

// Key is the Signer of a test; it is removed after the test.
type Key struct{ *Signer }

// NewKey generates a key.
func NewKey(t testing.TB, o KeyOptions) *Key {
	t.Helper()
	s, err := NewSigner(t.Context(), o)
	repotest.Must(t, err)
	t.Cleanup(func() { s.Close(t.Context()) })
	return &Key{s}
}

// Sign signs packages in place, as rpmsign does: over the header, and over header and payload.
func (k *Key) Sign(t testing.TB, packages ...string) {
	t.Helper()
	repotest.Must(t, k.Signer.Sign(t.Context(), packages))
}

// SignV3 signs packages in the format of rpm before 4.14, with a signature of header and payload as well.
func (k *Key) SignV3(t testing.TB, packages ...string) {
	t.Helper()
	repotest.Must(t, k.Signer.Sign(t.Context(), packages, "--rpmv3"))
}

// Detach signs a file; it writes the armoured signature to the file's name plus .asc.
func (k *Key) Detach(t testing.TB, file string) {
	t.Helper()
	repotest.Must(t, k.Signer.Detach(t.Context(), file))
}

// Write writes the armoured public key to a file below dir and returns its path.
func (k *Key) Write(t testing.TB, dir string) string {
	t.Helper()
	path := filepath.Join(dir, "RPM-GPG-KEY-"+k.Fingerprint[len(k.Fingerprint)-8:])
	repotest.Must(t, os.MkdirAll(dir, 0o755))
	repotest.Must(t, os.WriteFile(path, k.Public, 0o644))
	return path
}
