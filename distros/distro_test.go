package distros

import (
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/distros/failure"
)

func TestToolchains(t *testing.T) {
	t.Parallel()
	// The compilers of each system's kernels (CONFIG_CC_VERSION_TEXT), and whether some need libelf-dev on
	// amd64.
	want := map[string]string{
		"debian11":    "gcc-10 kmod libc6-dev libelf1 make libelf-dev",
		"debian12":    "gcc-12 kmod libc6-dev libelf1 make",
		"debian13":    "gcc-14 kmod libc6-dev libelf1t64 make",
		"ubuntu16.04": "gcc-5 kmod libc6-dev libelf1 make libelf-dev",
		"ubuntu18.04": "gcc-7 kmod libc6-dev libelf1 make libelf-dev",
		"ubuntu20.04": "gcc-9 kmod libc6-dev libelf1 make libelf-dev",
		"ubuntu22.04": "gcc-11 gcc-12 kmod libc6-dev libelf1 make libelf-dev",
		"ubuntu24.04": "gcc-13 kmod libc6-dev libelf1t64 make",
		"ubuntu26.04": "gcc-15 kmod libc6-dev libelf1t64 make",
		"flatcar":     "gcc-14 kmod libc6-dev libelf1t64 make",

		"gardenlinux1877": "gcc-14 kmod libc6-dev libelf1t64 make",
		"gardenlinux2150": "gcc-15 kmod libc6-dev libelf1t64 make",
	}
	tools := " make diffutils findutils gawk"
	for _, d := range All() {
		id, version := d.OSRelease()
		switch {
		case id == "azurelinux":
			want[d.ID()] = "gcc binutils glibc-devel kernel-headers kmod elfutils-libelf-devel" + tools
		case id == "sles" || id == "opensuse-leap":
			gcc := map[bool]string{true: "gcc13", false: "gcc7"}[version == "16.0"]
			want[d.ID()] = gcc + " kmod libelf-devel" + tools
		case d.PackageManager() == "rpm":
			extra := map[string]string{"amzn2": " gcc10", "ol8": " gcc-toolset-11-gcc", "ol9": " gcc-toolset-13-gcc"}[id+version]
			want[d.ID()] = "gcc" + extra + " kmod elfutils-libelf-devel" + tools
		}
	}
	got := map[string]string{}
	for _, d := range All() {
		got[d.ID()] = strings.Join(d.Toolchain("amd64"), " ")
		onArm := strings.TrimSuffix(got[d.ID()], " libelf-dev")
		assert.Equalf(t, onArm, strings.Join(d.Toolchain("arm64"), " "), "%s on arm64", d.ID())
	}
	assert.Same(t, want, got)
}

// TestGuestPrograms: Debian's releases from 12 on.
func TestGuestPrograms(t *testing.T) {
	t.Parallel()
	var have []string
	for _, d := range All() {
		if GuestPrograms(d) != nil {
			have = append(have, d.ID())
		}
	}
	assert.Equal(t, "debian12 debian13", strings.Join(have, " "))
}

func TestAll(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, d := range All() {
		id, version := d.OSRelease()
		if seen[d.ID()] || d.ID() != id+version || !d.Matches(id, version) || d.Matches(id+"x", version) {
			t.Errorf("ID %q of %s %s is taken or made otherwise", d.ID(), id, version)
		}
		seen[d.ID()] = true
		if got, err := Lookup(d.ID()); err != nil || got.ID() != d.ID() {
			t.Errorf("Lookup(%q) = %v, %v", d.ID(), got, err)
		}
		dirs := []string{d.LibDir("amd64"), d.LibDir32("amd64"), d.LibDir("arm64"), d.LibDir32("arm64")}
		want := []string{"usr/lib/x86_64-linux-gnu", "usr/lib/i386-linux-gnu", "usr/lib/aarch64-linux-gnu", ""}
		if d.PackageManager() == "rpm" {
			want = []string{"usr/lib64", "usr/lib", "usr/lib64", ""}
		}
		if id == "azurelinux" { // usr/lib64 is a link to lib, and there are no 32-bit libraries
			want = []string{"usr/lib", "", "usr/lib", ""}
		}
		assert.Samef(t, want, dirs, "%s", d.ID())
		if d.LibDir("sparc") != "" || d.LibDir32("sparc") != "" || d.Toolchain("sparc") != nil {
			t.Errorf("%s knows an architecture that does not exist", d.ID())
		}
		if _, ok := d.(RPM); ok != (d.PackageManager() == "rpm") || Userland(d).PackageManager() == "" {
			t.Errorf("%s: package manager %q", d.ID(), d.PackageManager())
		}
	}
}

// Systems whose container runtimes are too old for zstd.
func TestReadsZstd(t *testing.T) {
	t.Parallel()
	var old []string
	for _, d := range All() {
		if !d.ReadsZstd() {
			old = append(old, d.ID())
		}
	}
	assert.Same(t, []string{"debian11", "ubuntu16.04", "ubuntu18.04", "centos7"}, old)
}

// The short names of the compiler lead to a file in the packages.
func TestLinks(t *testing.T) {
	t.Parallel()
	for _, d := range All() {
		links := d.Links()
		for link, target := range links {
			if path.IsAbs(link) || path.Clean(link) != link || path.IsAbs(target) {
				t.Errorf("%s: link %s -> %s is not relative and clean", d.ID(), link, target)
			}
		}
		name := "usr/bin/cc"
		for range 5 {
			if target, ok := links[name]; ok {
				name = path.Join(path.Dir(name), target)
			}
		}
		if want := d.Toolchain("amd64")[0]; d.PackageManager() != "rpm" && path.Base(name) != want {
			t.Errorf("%s: cc leads to %s; want %s", d.ID(), name, want)
		}
		links["usr/bin/cc"] = "changed"
		assert.Equalf(t, false, d.Links()["usr/bin/cc"] == "changed", "%s: callers share a map", d.ID())
		d.Toolchain("amd64")[0] = "changed"
		assert.Equalf(t, false, slices.Contains(d.Toolchain("amd64"), "changed"), "%s: callers share a slice", d.ID())
	}
}

func TestLookupUnknown(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]string{
		"ubuntu1604":                     "did you mean ubuntu16.04",
		"Ubuntu16.04":                    "did you mean ubuntu16.04",
		"debian-12":                      "did you mean debian12",
		"ubunut22.04":                    "did you mean ubuntu22.04",
		"ubuntu":                         "did you mean ubuntu16.04, ubuntu18.04, ubuntu20.04?",
		"plan9":                          "known are debian11, ",
		"":                               "known are debian11, ",
		"windows server 2025 datacenter": "known are",
	} {
		d, err := Lookup(id)
		if d != nil || failure.KindOf(err) != failure.Usage || !strings.Contains(err.Error(), want) {
			t.Errorf("Lookup(%q) = %v, %v; want %q", id, d, err, want)
		}
	}
}

func TestNearest(t *testing.T) {
	t.Parallel()
	tests := []struct {
		word  string
		among string
		want  string
	}{
		{"418.87.1", "418.87.01 418.226.00 535.261.03", "418.87.01"},
		{"535", "418.87.01 535.261.03 535.104.05", "535.104.05 535.261.03"},
		{"arhcs", "archs base id", "archs"},
		{"comp", "compute full", "compute"},
		{"x", "yy zzz", ""},
		{"abc", "abd abc xbc abx a", "abc abd abx"}, // exact first, then the longest common beginning
		{"abc", "abd abd", "abd"},
		{"ab", "", ""},
		{strings.Repeat("a", 65), strings.Repeat("a", 65), ""},
	}
	for _, test := range tests {
		among := strings.Fields(test.among)
		assert.Equalf(t, test.want, strings.Join(Nearest(test.word, among), " "), "Nearest(%.20q, %q)", test.word, test.among)
		slices.Reverse(among)
		assert.Equalf(t, test.want, strings.Join(Nearest(test.word, among), " "), "Nearest(%.20q, %q reversed)", test.word, test.among)
	}
}
