package rpmtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/tool"
)

// Root is a system in a folder.
type Root struct{ Dir string }

// NewRoot makes a system with an empty database, in SQLite's format: Debian's rpm can write no other.
func NewRoot(t testing.TB) *Root {
	t.Helper()
	r := &Root{Dir: t.TempDir()}
	require.NoError(t, os.MkdirAll(filepath.Join(r.Dir, "var/lib/rpm"), 0o755))
	r.RPM(t, "--initdb")
	return r
}

// RPM runs rpm on the system and returns its output.
func (r *Root) RPM(t testing.TB, args ...string) string {
	t.Helper()
	return tool.Must(t, append([]string{"rpm", "--root", r.Dir, "--define", "_db_backend sqlite", "--define", "_dbpath /var/lib/rpm", "--nosignature"}, args...)...)
}

// Install installs packages without checking their dependencies and without their scripts. It needs root,
// because rpm calls chroot.
func (r *Root) Install(t testing.TB, packages ...string) {
	t.Helper()
	if len(packages) > 0 {
		r.RPM(t, append([]string{"-i", "--force-debian", "--nodeps", "--noscripts", "--notriggers", "--nodigest"}, packages...)...)
	}
}

// Installed returns the packages as "name-[epoch:]version-release.arch", like rpm -qa, without the keys.
func (r *Root) Installed(t testing.TB) []string {
	t.Helper()
	var out []string
	for line := range strings.FieldsSeq(r.RPM(t, "-qa", "--qf", `%{name}-%|epoch?{%{epoch}:}|%{version}-%{release}.%{arch}\n`)) {
		if !strings.HasPrefix(line, "gpg-pubkey-") {
			out = append(out, line)
		}
	}
	return out
}
