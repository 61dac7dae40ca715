package rpm

import (
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/repotest"
	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/rpm/repoconf"
	"github.com/driver-container/driver-container/distros/rpm/rpmfile"
)

func FuzzPrimary(f *testing.F) {
	f.Add([]byte(repotest.Primary(basics())))
	f.Add([]byte(`<metadata><package><name>a</name><arch>noarch</arch><version ver="1" rel="1"/><format><rpm:requires><rpm:entry name="(a or b)"/></rpm:requires><file/></format></package></metadata>`))
	f.Fuzz(func(t *testing.T, data []byte) {
		b := newBuilder(&repo{source: repoconf.Source{ID: "x"}, base: "https://example.com/os"}, Options{Arch: "x86_64"})
		if err := b.readPrimary(strings.NewReader(string(data))); err != nil {
			return
		}
		x := NewIndex("x86_64", b.packages)
		for _, e := range x.packages {
			for _, p := range x.Versions(e.Name) {
				if p.Name == "" || p.Version == "" || p.Size <= 0 || len(p.SHA256)+len(p.SHA512) == 0 || strings.Contains(p.URL, "/../") {
					t.Errorf("%+v", p)
				}
				found := false
				for _, q := range x.WhatProvides(rpmfile.Relation{Name: p.Name}) {
					found = found || p == q
				}
				if !found {
					t.Errorf("%s is not found by its name", p)
				}
			}
		}
	})
}

func FuzzModules(f *testing.F) {
	f.Add([]byte(moduleDocument("nodejs:10", "1", "c1", "platform: [el8]", "nodejs-1:10.1-1.x86_64") + moduleDefault("nodejs", `"10"`)))
	f.Fuzz(func(t *testing.T, data []byte) {
		docs, err := ParseModules(strings.NewReader(string(data)))
		if err != nil {
			return
		}
		p := &Package{Package: distros.Package{Name: "nodejs", Arch: "x86_64"}, Metadata: rpmfile.Metadata{EVR: rpmfile.EVR{Epoch: "1", Version: "10.1", Release: "1"}}}
		hideByModules([]*Package{p}, docs, moduleState{ModuleState: repoconf.ModuleState{Streams: map[string]string{"a": "b"}, Platform: "el8"}})
	})
}

// TestFilelistsAreBounded: a list that has a wanted file too often is refused.
func TestFilelistsAreBounded(t *testing.T) {
	t.Parallel()
	list := `<filelists><package pkgid="a">` + strings.Repeat("<file>/x</file>", maxPackages+1) + "</package></filelists>"
	err := readFilelists(strings.NewReader(list), map[string]bool{"/x": true}, map[string][]string{})
	assert.ErrorContains(t, err, "more than")
}

func FuzzFilelists(f *testing.F) {
	f.Add([]byte(repotest.Filelists(basics())))
	f.Fuzz(func(t *testing.T, data []byte) {
		found := map[string][]string{}
		if err := readFilelists(strings.NewReader(string(data)), map[string]bool{"/usr/bin/gcc": true}, found); err != nil {
			return
		}
		for _, names := range found {
			for _, n := range names {
				assert.Equalf(t, "/usr/bin/gcc", n, "found")
			}
		}
	})
}
