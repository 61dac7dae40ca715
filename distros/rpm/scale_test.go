package rpm

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/rpm/repoconf"
	"github.com/driver-container/driver-container/distros/rpm/rpmfile"
)

// generatePrimary writes a list with the proportions of Fedora's: 75000 packages take 180 MB.
func generatePrimary(w io.Writer, packages int) {
	r := rand.New(rand.NewPCG(1, 2))
	fmt.Fprintf(w, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<metadata xmlns=\"http://linux.duke.edu/metadata/common\" xmlns:rpm=\"http://linux.duke.edu/metadata/rpm\" packages=\"%d\">\n", packages)
	for i := range packages {
		name := fmt.Sprintf("package-%d-devel", i)
		fmt.Fprintf(w, `<package type="rpm"><name>%s</name><arch>x86_64</arch><version epoch="0" ver="%d.%d" rel="%d.fc41"/>
  <checksum type="sha256" pkgid="YES">%064x</checksum><summary>Headers &amp; libraries of package %d</summary>
  <description>%s</description><packager>Somebody</packager><url>https://example.com/%d</url>
  <time file="1729000000" build="1728000000"/><size package="%d" installed="%d" archive="4"/>
  <location href="Packages/p/%s-1.x86_64.rpm"/><format><rpm:license>GPL-2.0-only</rpm:license><rpm:vendor>Somebody</rpm:vendor>
    <rpm:group>Unspecified</rpm:group><rpm:buildhost>host</rpm:buildhost><rpm:sourcerpm>%s.src.rpm</rpm:sourcerpm><rpm:header-range start="4504" end="17000"/>
    <rpm:provides>`, name, i%9, i%31, i%7, i, i, bytes.Repeat([]byte("Some words about it. "), 40), i, i+1, i*3, name, name)
		for j := range 8 {
			fmt.Fprintf(w, `      <rpm:entry name="lib%d-%d.so.1()(64bit)" flags="EQ" epoch="0" ver="%d" rel="1.fc41"/>`+"\n", i, j, i%100)
		}
		fmt.Fprint(w, "    </rpm:provides><rpm:requires>\n")
		for range 14 {
			fmt.Fprintf(w, `      <rpm:entry name="lib%d-%d.so.1()(64bit)" flags="GE" epoch="0" ver="%d.%d"/>`+"\n", r.IntN(packages), r.IntN(8), r.IntN(10), r.IntN(30))
		}
		fmt.Fprintf(w, "    </rpm:requires><file>/usr/bin/tool-%d</file><file>/etc/tool-%d.conf</file></format></package>\n", i, i)
	}
	fmt.Fprint(w, "</metadata>\n")
}

// TestScale limits the memory for large lists: an index of 60000 packages must take less than 300 MB.
func TestScale(t *testing.T) {
	const packages = 3000
	x, held, _ := readGenerated(t, packages)
	if limit := int64(300<<20) / 60000 * packages; held > limit {
		t.Errorf("the index of %d packages holds %d bytes, want at most %d", packages, held, limit)
	}
	if got := x.WhatProvides(rpmfile.Relation{Name: "lib2999-7.so.1()(64bit)"}); len(got) != 1 || got[0].Name != "package-2999-devel" {
		t.Errorf("WhatProvides = %v", got)
	}
	if p, ok := x.Candidate("package-7-devel"); !ok || p.Version != "7.7-0.fc41" || len(p.Metadata.Requires) != 14 {
		t.Errorf("Candidate = %+v, %v", p, ok)
	}
}

func readGenerated(t testing.TB, packages int) (x *Index, held, size int64) {
	t.Helper()
	var list bytes.Buffer
	generatePrimary(&list, packages)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	start := time.Now()
	b := newBuilder(&repo{source: repoconf.Source{ID: "x"}}, "https://example.com", "x86_64")
	require.NoError(t, b.readPrimary(bytes.NewReader(list.Bytes())))
	x = &Index{arch: "x86_64", entries: b.entries}
	x.build()
	took := time.Since(start)
	runtime.GC()
	runtime.ReadMemStats(&after)
	t.Logf("%d packages, %d MB: read in %v", x.Len(), list.Len()>>20, took)
	held = int64(after.HeapAlloc) - int64(before.HeapAlloc) //nolint:gosec // far from the limits
	runtime.KeepAlive(&list)
	return x, held, int64(list.Len())
}

// TestTooLarge checks that the sizes in a list are bounded before anything is downloaded.
func TestTooLarge(t *testing.T) {
	t.Parallel()
	r := &repo{}
	l := listFile{Href: "a", Sum: checksum{SHA256: strings.Repeat("0", 64), Size: maxPrimary + 1}}
	err := r.read(t.Context(), "primary", l, maxPrimary, nil)
	if !errors.Is(err, distros.ErrIndex) || !strings.Contains(err.Error(), "allowed") {
		t.Error(err)
	}
	if x := readListed(t, listed("a", "noarch", maxPackage+1)); !strings.Contains(x.entries[0].hidden, "allowed") {
		t.Errorf("%+v", x.entries)
	}
}
