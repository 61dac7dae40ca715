// Package rpmtest makes real rpm packages, repositories and systems for tests: rpmbuild builds the packages
// from a description in Go, a generated gpg key signs them, createrepo_c makes repositories of them, and rpm
// installs them into a folder.
//
// Everything is in temporary folders that are removed with the test. A tool that fails fails the test. The
// package does not imitate any of the formats: the real tools write them.
package rpmtest

import (
	"os/exec"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/gate"
	"github.com/driver-container/driver-container/ci/testkit/gpg"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

// Need skips a test, with the reason, unless it runs in the real tier (DRIVER_E2E=1). In that tier a missing
// tool fails the test. If no tools are named, it asks for all that this package may use. Debian has them in
// the packages rpm, createrepo-c and gnupg.
func Need(t testing.TB, tools ...string) {
	t.Helper()
	gate.Real(t, "needs rpm, createrepo_c and gpg of the real tier")
	if len(tools) == 0 {
		tools = []string{"rpm", "rpmbuild", "rpmsign", "createrepo_c", "gpg"}
	}
	for _, tool := range tools {
		if _, err := exec.LookPath(tool); err != nil {
			t.Fatalf("the real tier needs %s: install Debian's packages rpm, createrepo-c, gnupg, dnf and zypper", tool)
		}
	}
}

// NewKey makes a key that is removed after the test; see gpg.New.
func NewKey(t testing.TB, algorithm string) *gpg.Key {
	t.Helper()
	k := require.Value(gpg.New(t.Context(), algorithm))(t)
	t.Cleanup(func() { k.Close(t.Context()) })
	return k
}
