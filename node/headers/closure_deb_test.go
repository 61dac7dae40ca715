package headers

import (
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/apt"
	"github.com/driver-container/driver-container/distros/dpkg"
)

// fakeIndex is a catalogue: "name version: depends".
type fakeIndex []string

func (s fakeIndex) Versions(name string) []apt.Package {
	var out []apt.Package
	for _, line := range s {
		head, depends, _ := strings.Cut(line, ":")
		n, v, _ := strings.Cut(head, " ")
		if n != name {
			continue
		}
		p := dpkg.Paragraph{}.Set("Package", n).Set("Depends", strings.TrimSpace(depends))
		out = append(out, apt.Package{Package: distros.Package{Name: n, Version: v, Arch: "amd64"}, Paragraph: p})
	}
	return out
}

func (s fakeIndex) Candidate(name string) (*apt.Package, bool) {
	if all := s.Versions(name); len(all) > 0 {
		return &all[0], true
	}
	return nil, false
}

func (s fakeIndex) Find(name string) (*apt.Package, error) {
	p, ok := s.Candidate(name)
	if !ok {
		return nil, &distros.UnresolvableError{Relation: name}
	}
	return p, nil
}

func TestClosure(t *testing.T) {
	t.Parallel()
	ubuntu := fakeIndex{
		"linux-headers-6.8.0-31-generic 6.8.0-31.31: linux-headers-6.8.0-31, libc6 (>= 2.38), libelf1t64 (>= 0.144), libssl3t64 (>= 3.0.0), zlib1g (>= 1:1.2.3.3)",
		"linux-headers-6.8.0-31 6.8.0-31.31:",
		"linux-headers-6.8.0-40-generic 6.8.0-40.40~22.04.3: linux-hwe-6.8-headers-6.8.0-40, libc6 (>= 2.34)",
		"linux-hwe-6.8-headers-6.8.0-40 6.8.0-40.40~22.04.3:",
		"linux-headers-5.15.0-1009-aws 5.15.0-1009.11: linux-aws-headers-5.15.0-1009, libc6 (>= 2.34)",
		"linux-aws-headers-5.15.0-1009 5.15.0-1009.11: coreutils | fileutils",
	}
	debian := fakeIndex{
		"linux-headers-6.12.9+deb13-amd64 2: linux-base (>= 4.12~), linux-headers-6.12.9+deb13-common (= 2), linux-image-6.12.9+deb13-amd64 (= 2) | linux-image-6.12.9+deb13-amd64-unsigned (= 2), linux-kbuild-6.12.9+deb13, gcc-14",
		"linux-headers-6.12.9+deb13-common 3:",
		"linux-headers-6.12.9+deb13-common 2:",
		"linux-kbuild-6.12.9+deb13 2: libc6 (>= 2.34), pahole",
		"linux-image-6.12.9+deb13-amd64 2: linux-initramfs-tool",
	}
	tests := []struct {
		name          string
		x             fakeIndex
		release, want string
		libc          dpkg.Version
		err           string
	}{
		{name: "ubuntu", x: ubuntu, release: "6.8.0-31-generic", libc: "2.39-0ubuntu8",
			want: "linux-headers-6.8.0-31 6.8.0-31.31,linux-headers-6.8.0-31-generic 6.8.0-31.31"},
		{name: "hardware enablement", x: ubuntu, release: "6.8.0-40-generic", libc: "2.35",
			want: "linux-hwe-6.8-headers-6.8.0-40 6.8.0-40.40~22.04.3,linux-headers-6.8.0-40-generic 6.8.0-40.40~22.04.3"},
		{name: "cloud flavour, no record of what is installed", x: ubuntu, release: "5.15.0-1009-aws",
			want: "linux-aws-headers-5.15.0-1009 5.15.0-1009.11,linux-headers-5.15.0-1009-aws 5.15.0-1009.11"},
		{name: "debian, exact version of a dependency, no image", x: debian, release: "6.12.9+deb13-amd64", libc: "2.41",
			want: "linux-kbuild-6.12.9+deb13 2,linux-headers-6.12.9+deb13-common 2,linux-headers-6.12.9+deb13-amd64 2"},
		{name: "newer than the image", x: ubuntu, release: "6.8.0-31-generic", libc: "2.35-0ubuntu3",
			err: "the tools in package linux-headers-6.8.0-31-generic 6.8.0-31.31 need libc6 (>= 2.38), and the image has 2.35-0ubuntu3"},
		{name: "broken repository", x: fakeIndex{debian[0]}, release: "6.12.9+deb13-amd64", err: "needs linux-headers-6.12.9+deb13-common (= 2), which the repositories do not have"},
		{name: "own kernel", x: fakeIndex{"linux-headers-5.10.1-netflix-12 1:"}, release: "5.10.1-netflix-12", want: "linux-headers-5.10.1-netflix-12 1"},
		{name: "bad dependency", x: fakeIndex{"linux-headers-5.10.1-x 1: a ("}, release: "5.10.1-x", err: "Depends"},
		{name: "circle", x: fakeIndex{"linux-headers-1-a 1: linux-headers-1-b", "linux-headers-1-b 1: linux-headers-1-a"}, release: "1-a", want: "linux-headers-1-b 1,linux-headers-1-a 1"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			d := require.Value(distros.Lookup("debian12"))(t)
			f := debManager{fetcher: &fetcher{Options: Options{Release: test.release}}}
			p, err := f.plan(test.x, test.libc, d.Headers(test.release), &UnavailableError{Release: test.release})
			checkPlan(t, p, err, test.want, test.err)
		})
	}
}

// checkPlan compares the packages of a plan, in their order, or its error.
func checkPlan(t *testing.T, p plan, err error, want, wantErr string) {
	t.Helper()
	if wantErr != "" {
		assert.ErrorContains(t, err, wantErr)
		return
	}
	require.NoError(t, err)
	var got []string
	for _, pkg := range p {
		got = append(got, label(pkg))
	}
	assert.Same(t, want, strings.Join(got, ","))
}

// An index without an end.
func TestClosureIsBounded(t *testing.T) {
	t.Parallel()
	var s fakeIndex
	for n := range 100 {
		s = append(s, strings.Repeat("x", n)+"linux-headers-1 1: "+strings.Repeat("x", n+1)+"linux-headers-1")
	}
	f := debManager{fetcher: &fetcher{}}
	assert.ErrorContains(t, assert.Err(f.plan(s, "", []string{"linux-headers-1"}, &UnavailableError{})), "more than 50 packages")
}

func TestNewest(t *testing.T) {
	t.Parallel()
	x := fakeIndex{"linux-headers-generic 1: linux-headers-5.15.0-190-generic", "linux-headers-lowlatency 1: a ("}
	assert.Equal(t, "5.15.0-190-generic", newest(x, "5.15.0-102-generic"))
	for _, release := range []string{"5", "5.15.0-9-unheard-of", "5.15.0-9-lowlatency"} {
		assert.Equalf(t, "", newest(x, release), "%s", release)
	}
}
