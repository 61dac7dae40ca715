package rpmtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/require"
)

// Root is a system in a folder.
type Root struct {
	Dir     string
	Backend string // of its database
	DBPath  string
}

// NewRoot makes a system with an empty database. backend is "sqlite" (also for "") or "ndb"; if this
// machine's rpm cannot write that format, the test is skipped: Debian's can write only sqlite, and read bdb.
// dbpath is "/var/lib/rpm" (also for "") or "/usr/lib/sysimage/rpm".
func NewRoot(t testing.TB, backend, dbpath string) *Root {
	t.Helper()
	r := &Root{Dir: t.TempDir(), Backend: backend, DBPath: dbpath}
	if r.Backend == "" {
		r.Backend = "sqlite"
	}
	if r.DBPath == "" {
		r.DBPath = "/var/lib/rpm"
	}
	require.NoError(t, os.MkdirAll(filepath.Join(r.Dir, r.DBPath), 0o755))
	if out := r.RPM(t, "--initdb"); strings.Contains(out, "_db_backend") {
		t.Skipf("this rpm does not write databases of the kind %s: %s", r.Backend, strings.TrimSpace(out))
	}
	return r
}

// RPM runs rpm on the system and returns its output.
func (r *Root) RPM(t testing.TB, args ...string) string {
	t.Helper()
	fixed := []string{"--root", r.Dir, "--define", "_db_backend " + r.Backend, "--define", "_dbpath " + r.DBPath, "--nosignature"}
	return Run(t, nil, "rpm", append(fixed, args...)...)
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
