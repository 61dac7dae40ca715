package rpm

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/repotest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/distros/rpm/repoconf"
	"github.com/driver-container/driver-container/distros/rpm/rpmfile"
)

// TestScale limits the memory for large lists: an index of 60000 packages, which need what others provide as Fedora's do,
// must take less than 300 MB.
func TestScale(t *testing.T) {
	const packages = 3000
	r := rand.New(rand.NewPCG(1, 2))
	var all []repotest.RPM
	for i := range packages {
		p := repotest.RPM{Name: fmt.Sprintf("package-%d-devel", i), EVR: fmt.Sprintf("%d.%d-1.fc41", i%9, i%31), Files: []repotest.File{{Name: fmt.Sprint("usr/bin/tool-", i)}}}
		for j := range 8 {
			p.Provides = append(p.Provides, fmt.Sprintf("lib%d-%d.so.1()(64bit) = %d-1.fc41", i, j, i%100))
		}
		for range 14 {
			p.Requires = append(p.Requires, fmt.Sprintf("lib%d-%d.so.1()(64bit) >= %d.%d", r.IntN(packages), r.IntN(8), r.IntN(10), r.IntN(30)))
		}
		all = append(all, p)
	}
	list := repotest.Primary(all)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	b := newBuilder(&repo{source: repoconf.Source{ID: "x"}, base: "https://example.com"}, Options{Arch: "x86_64"})
	require.NoError(t, b.readPrimary(strings.NewReader(list)))
	x := NewIndex("x86_64", b.packages)
	runtime.GC()
	runtime.ReadMemStats(&after)
	if held, limit := int64(after.HeapAlloc)-int64(before.HeapAlloc), int64(300<<20)/60000*packages; held > limit {
		t.Errorf("the index of %d packages holds %d bytes, want at most %d", packages, held, limit)
	}
	if got := x.WhatProvides(rpmfile.Relation{Name: "lib2999-7.so.1()(64bit)"}); len(got) != 1 || len(got[0].Metadata.Requires) != 14 {
		t.Errorf("WhatProvides = %v", got)
	}
	few := newBuilder(&repo{base: "https://example.com"}, Options{Arch: "x86_64", Names: func(name string) bool { return name == "package-7-devel" }})
	require.NoError(t, few.readPrimary(strings.NewReader(list)))
	if len(few.packages) != 1 || few.relations != 23 {
		t.Errorf("%d packages, %d relations; want those of one", len(few.packages), few.relations)
	}
	runtime.KeepAlive(list)
}
