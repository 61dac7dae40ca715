package rpm

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/rpm/repoconf"
	"github.com/driver-container/driver-container/distros/rpm/rpmfile"
)

// The tests below read lists of real repositories: see testdata/real/README.

func TestRealPrimary(t *testing.T) {
	t.Parallel()
	f := require.Value(os.Open("testdata/real/fedora-38-0ad-data.xml"))(t)
	defer f.Close() //nolint:errcheck // opened for reading
	b := newBuilder(&repo{source: repoconf.Source{ID: "fedora"}}, "https://example.com/os", "x86_64")
	require.NoError(t, b.readPrimary(f))
	x := &Index{arch: "x86_64", entries: b.entries}
	x.build()
	got, ok := x.Candidate("0ad-data")
	if !ok {
		t.Fatal("the package is not there")
	}
	evr := rpmfile.EVR{Epoch: "0", Version: "0.0.26", Release: "2.fc38"}
	want := &Package{
		Package: distros.Package{
			Name: "0ad-data", Version: "0.0.26-2.fc38", Arch: "noarch", Size: 1493523190,
			URL:    "https://example.com/os/Packages/0/0ad-data-0.0.26-2.fc38.noarch.rpm",
			SHA256: "9d4882481909c8c5cdd4b59988f17fc015d8703f5fbc587d07bd44038fbdb9ac",
		},
		Metadata: rpmfile.Metadata{
			Name: "0ad-data", EVR: evr, Arch: "noarch",
			Provides: []rpmfile.Relation{{Name: "0ad-data", Op: "=", EVR: evr}},
			Requires: []rpmfile.Requirement{{Relation: rpmfile.Relation{Name: "dejavu-sans-fonts"}}, {Relation: rpmfile.Relation{Name: "dejavu-sans-mono-fonts"}}},
		},
		Origin: "fedora", InstalledSize: 3296032344,
	}
	sameEVR := cmp.Comparer(func(a, b rpmfile.EVR) bool { return rpmfile.Compare(a, b) == 0 })
	assert.Same(t, want, got, sameEVR, cmpopts.EquateEmpty(), cmpopts.IgnoreFields(Package{}, "Priority"))
}
