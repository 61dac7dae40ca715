package imagetest

import (
	"strings"
	"testing"

	"github.com/ProtonMail/go-crypto/openpgp"

	"github.com/driver-container/driver-container/ci/testkit/repotest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/distros"
)

// RPMWorld is a World of systems with .rpm packages.
type RPMWorld struct {
	*World
	Systems map[string]*RPMSystem
}

// NewRPM starts a world with the named systems of rocky9 (a database of SQLite, signed packages),
// rhel9, rhel10, azurelinux3.0, opensuse-leap15.6 (ndb, a signed index with SHA-512 only) and centos7
// (Berkeley DB; its own repositories no longer exist, the matrix has others), for amd64.
func NewRPM(t testing.TB, ids ...string) *RPMWorld {
	t.Helper()
	w := &RPMWorld{start(t), map[string]*RPMSystem{}}
	for _, id := range ids {
		s := w.newSystem(id)
		s.Publish()
		s.PushBase()
		w.Systems[id] = s
	}
	w.addDriver(OldDriver, "amd64")
	w.addDriver(NewDriver, "amd64")
	return w
}

// RPMSystem is a system of a world. Tests change its fields and publish or push again.
type RPMSystem struct {
	*repotest.Repository                   // the only repository of its packages
	Files                []repotest.File   // of the base, in addition to those of its packages
	Imported             []*openpgp.Entity // keys in the base's database
	// Change is applied to all files of the base before it is pushed.
	Change func([]repotest.File) []repotest.File

	world        *World
	id, database string
	colour       uint32         // that rpm records
	installed    []repotest.RPM // in the base
}

// newSystem makes a system with the packages of every base and the compiler, and adds it to the
// matrix.
func (w *RPMWorld) newSystem(id string) *RPMSystem {
	made, known := rpmSystems[id]
	if !known {
		w.t.Fatalf("imagetest: no rpm system %s", id)
	}
	values := []string{"$ID", id, "$DIST", made.dist, "$URL", w.URL, "$KEY", RPMKey}
	w.addRow(id, id, amd64, strings.NewReplacer(values...).Replace(made.row))
	s := &RPMSystem{
		world: w.World, id: id, database: made.database, colour: made.colour,
		Repository: w.Extra("/" + id), Imported: []*openpgp.Entity{w.key},
	}
	s.Signed = made.signed
	s.SHA512 = made.signed
	s.installed = append(rpmsOf(rpmRelease, values...), documented(rpmInstalled, values...)...)
	s.Files = filesOf(rpmRoot+made.files, "", values...)
	s.Files = append(s.Files, text(RPMKey, repotest.Public(w.t, w.key)))
	s.Packages = documented(rpmToolchain, values...)
	for _, name := range require.Value(distros.Lookup(id))(w.t).Toolchain("amd64") {
		p := documented(templateFor(rpmTools, name), append(values, "$NAME", name)...)[0]
		if name == "kmod" {
			p.Files[0].Caps = "cap_sys_module=ep"
		}
		s.Packages = append(s.Packages, p)
	}
	s.Packages = append(s.Packages, rpmsOf(made.packages, values...)...)
	return s
}

// Extra returns another repository, without packages.
func (w *RPMWorld) Extra(dir string) *repotest.Repository {
	r := repotest.NewRepository(w.t, w.URL, dir, w.Put)
	r.Signer = w.key
	return r
}
