package recipe

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/distros"
)

// offer makes kernels of "release" or, of the default series, "release*".
func offer(t *testing.T, system string, releases ...string) (list []distros.Kernel) {
	t.Helper()
	d := require.Value(distros.Lookup(system))(t)
	for _, text := range releases {
		release, def := strings.CutSuffix(text, "*")
		_, flavour, ok := d.KernelOf("linux-headers-" + release)
		if !ok {
			t.Fatalf("%s is no kernel", release)
		}
		list = append(list, distros.Kernel{Release: release, Flavour: flavour, Default: def})
	}
	return list
}

func TestSelectKernels(t *testing.T) {
	t.Parallel()
	debian := offer(t, "debian12",
		"6.1.0-9-amd64*", "6.12.117+deb12-amd64", "6.1.0-56-amd64*", "6.1.0-56-cloud-amd64*", "6.1.0-47-amd64*", "6.12.117+deb12-cloud-amd64",
		"6.12.115+deb12-amd64", "6.1.99-site1")
	for _, tt := range []struct{ specs, flavours, want string }{
		{"latest", "", "6.1.0-56-amd64"},
		{"latest:1", "", "6.1.0-56-amd64"},
		{"latest:2", "", "6.1.0-56-amd64 6.1.0-47-amd64"},
		{"latest:99", "", "6.1.0-56-amd64 6.1.0-47-amd64 6.1.0-9-amd64"}, // the default series only
		{"latest", "cloud-amd64", "6.1.0-56-cloud-amd64"},
		{"latest", "cloud-amd64 amd64", "6.1.0-56-cloud-amd64 6.1.0-56-amd64"},
		{"latest", "site1", "6.1.99-site1"}, // no default series
		{"6.12:latest", "", "6.12.117+deb12-amd64"},
		{"6.12:latest:2", "cloud-amd64", "6.12.117+deb12-cloud-amd64"},
		{"6.12:all", "", "6.12.117+deb12-cloud-amd64 6.12.117+deb12-amd64 6.12.115+deb12-amd64"},
		{"6.12:all", "amd64", "6.12.117+deb12-amd64 6.12.115+deb12-amd64"},
		{"all", "cloud-amd64", "6.12.117+deb12-cloud-amd64 6.1.0-56-cloud-amd64"},
		{"all", "", "6.12.117+deb12-cloud-amd64 6.12.117+deb12-amd64 6.12.115+deb12-amd64 6.1.99-site1 6.1.0-56-cloud-amd64 6.1.0-56-amd64 6.1.0-47-amd64 6.1.0-9-amd64"},
		{"5.4.0-site 6.1.0-56-amd64 latest 5.4.0-site", "", "6.1.0-56-amd64 5.4.0-site"},
		{"6.1.0-1-amd64 all", "site1", "6.1.99-site1 6.1.0-1-amd64"},
		{"6.1.85+", "", "6.1.85+"},
		{"", "", ""},
	} {
		got, err := SelectKernels(debian, strings.Fields(tt.specs), strings.Fields(tt.flavours), "amd64")
		if diff := cmp.Diff(strings.Fields(tt.want), got, cmp.Transformer("join", func(s []string) string {
			return strings.Join(s,
				" ")
		})); err != nil || diff != "" {
			t.Errorf("%q, %q: %v %s", tt.specs, tt.flavours, err, diff)
		}
	}
	assert.Equalf(t, "6.1.0-9-amd64", debian[0].Release, "the caller's list was sorted")
	assert.Same(t, []string{"6.1.0-38-amd64"}, require.Value(SelectKernels(nil, []string{"6.1.0-38-amd64"}, nil, "amd64"))(t))
}

func TestSelectKernelsRefuses(t *testing.T) {
	t.Parallel()
	ubuntu := offer(t, "ubuntu22.04", "5.15.0-69-generic*", "5.15.0-69-lowlatency*", "5.15.0-1034-aws*", "6.8.0-106-generic",
		"5.15.0-60-generic*", "5.15.0-61-generic*", "5.15.0-62-generic*", "5.15.0-63-generic*")
	for _, tt := range []struct {
		offered        []distros.Kernel
		spec, flavours string
		want           []string
	}{
		{ubuntu, "lastest", "", []string{`"lastest"`, "did you mean latest?", "6.1:latest"}},
		{ubuntu, "latest:0", "", []string{"latest:N"}},
		{ubuntu, "latest:1000", "", []string{"latest:N"}},
		{ubuntu, "latest:-1", "", []string{"latest:N"}},
		{ubuntu, "all:2", "", []string{"latest:N"}},
		{ubuntu, "6:latest", "", []string{"6.1:latest"}},
		{ubuntu, "generic", "", []string{"uname -r"}},
		{ubuntu, "6.1.0 amd64", "", []string{"uname -r"}},
		{ubuntu, "../6.1.0", "", []string{"uname -r"}},
		{ubuntu, "6.1.0/../x", "", []string{"uname -r"}},
		{ubuntu, "6.1.0-" + strings.Repeat("x", 60), "", []string{"uname -r"}},
		{ubuntu, "latest", "generi", []string{`no kernel of flavour "generi"`, "did you mean generic?", "aws, generic, lowlatency",
			"6.8.0-106-generic, ", "8 in all"}},
		{ubuntu, "all", "generic aws azure", []string{`"all"`, `"azure"`}},
		{ubuntu, "6.2:latest", "", []string{`no kernel of series 6.2 of flavour "generic"`, "the kernels 6.8.0-106-generic, 5.15.0-69-generic",
			"6 in all"}},
		{ubuntu, "6.2:all", "", []string{"no kernel of series 6.2; "}},
		{nil, "all", "", []string{"offer no kernel that fits", "--mirror"}},
		{nil, "latest", "", []string{"--mirror"}},
	} {
		got, err := SelectKernels(tt.offered, []string{tt.spec}, strings.Fields(tt.flavours), "generic")
		if got != nil || !errors.Is(err, ErrKernel) {
			t.Errorf("%q: %q, %v", tt.spec, got, err)
		}
		assert.ErrorContains(t, err, tt.want...)
	}
}

func FuzzSelectKernels(f *testing.F) {
	for _, seed := range []string{"all", "latest:3", "6.12:latest:2", "6.1.0-38-amd64", "latest:", "6.1:6.1:all"} {
		f.Add(seed)
	}
	offered := []distros.Kernel{{Release: "6.1.0-38-amd64", Flavour: "amd64", Default: true}, {Release: "6.12.1-amd64", Flavour: "amd64"}}
	f.Fuzz(func(t *testing.T, spec string) {
		got, err := SelectKernels(offered, []string{spec}, nil, "amd64")
		switch {
		case err != nil && !errors.Is(err, ErrKernel):
			t.Error(err)
		case err == nil && (len(got) == 0 || len(got) > 2):
			t.Errorf("%q: %q", spec, got)
		case err == nil && !IsListed(spec) && (got[0] != spec || distros.KernelTag(spec) == "" || strings.ContainsAny(spec, "/ \n")):
			t.Errorf("%q: %q", spec, got)
		}
	})
}
