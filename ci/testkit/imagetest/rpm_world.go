package imagetest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/ProtonMail/go-crypto/openpgp"

	"github.com/driver-container/driver-container/ci/testkit/repotest"
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
	systems := map[string]func(*World) *RPMSystem{
		"rocky9": rocky, "rhel9": rhel, "rhel10": rhel10, "azurelinux3.0": azure, "opensuse-leap15.6": leap, "centos7": centos,
	}
	for _, id := range ids {
		create, ok := systems[id]
		if !ok {
			t.Fatalf("imagetest: no rpm system %s", id)
		}
		s := create(w.World)
		s.Publish()
		s.PushBase()
		w.Systems[id] = s
	}
	w.addRun(OldDriver, "amd64")
	w.addRun(NewDriver, "amd64")
	return w
}

// RPMSystem is a system of a world. Tests change its fields and publish or push again.
type RPMSystem struct {
	*repotest.Repository                   // the only repository of its packages
	Installed            []repotest.RPM    // in the base
	Files                []repotest.File   // of the base, in addition to those of its packages
	Imported             []*openpgp.Entity // keys in the base's database
	Colour               uint32            // the colour that rpm records
	Row                  string            // further lines of the system's row in the matrix
	// Change is applied to all files of the base before it is pushed.
	Change func([]repotest.File) []repotest.File

	world         *World
	id, database  string
	dist          string // the end of releases
	configuration string // files of the system's own, as lines
}

// newRPMSystem makes a system with the packages of every base and the compiler.
func (w *World) newRPMSystem(id, database, dist, configuration string) *RPMSystem {
	s := &RPMSystem{
		world: w, id: id, database: database, dist: dist, configuration: configuration,
		Repository: (&RPMWorld{World: w}).Extra("/" + id), Imported: []*openpgp.Entity{w.key},
	}
	s.install()
	s.toolchain()
	return s
}

// Extra returns another repository, without packages.
func (w *RPMWorld) Extra(dir string) *repotest.Repository {
	r := repotest.NewRepository(w.t, w.URL, dir, w.Put)
	r.Signer = w.key
	return r
}

// Matrix returns a matrix.yaml of this world.
func (w *RPMWorld) Matrix() string {
	var b strings.Builder
	b.WriteString("systems:\n")
	for _, id := range slices.Sorted(maps.Keys(w.Systems)) {
		fmt.Fprintf(
			&b,
			"  - id: %s\n    base: %s\n    archs: [amd64]\n%s",
			id,
			w.Base(id),
			w.Systems[id].Row,
		)
	}
	b.WriteString("drivers:\n")
	for _, v := range []string{OldDriver, NewDriver} {
		w.writeDriver(&b, v)
		if v == OldDriver {
			b.WriteString("    kernel: {max: 5.1, reason: for tests}\n")
		}
	}
	return b.String()
}
