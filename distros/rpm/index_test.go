package rpm

import (
	"slices"
	"testing"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/rpm/rpmfile"
)

// newIndex makes an index of packages that are given whole, in the order of the sources.
func newIndex(arch string, packages []Package) *Index {
	x := &Index{arch: arch}
	for i := range packages {
		p := &packages[i]
		x.entries = append(x.entries, entry{name: p.Name, arch: p.Arch, evr: p.Metadata.EVR, priority: p.Priority, whole: p, hidden: p.Hidden})
	}
	x.build()
	return x
}

func TestObsoleting(t *testing.T) {
	t.Parallel()
	p := func(name, arch, hidden string, obsoletes ...string) Package {
		m := rpmfile.Metadata{Name: name, Arch: arch, EVR: rpmfile.EVR{Version: "1", Release: "1"}}
		for _, o := range obsoletes {
			m.Obsoletes = append(m.Obsoletes, rpmfile.Relation{Name: o})
		}
		return Package{Package: distros.Package{Name: name, Version: "1-1", Arch: arch}, Metadata: m, Hidden: hidden}
	}
	x := newIndex("aarch64", []Package{p("b", "aarch64", "", "old", "older", "old"), p("a", "noarch", "", "old"), p("c", "aarch64", "why", "old"), p("a", "noarch", "")})
	var got []string
	for _, p := range x.obsoleting("old") {
		got = append(got, p.Name)
	}
	if !slices.Equal(got, []string{"a", "b"}) || x.Len() != 2 {
		t.Errorf("obsoleting(old) = %q of %d packages; want a and b of 2", got, x.Len())
	}
}
