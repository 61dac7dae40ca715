package matrix

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/distros/driverinfo"
)

// small is a matrix with a case for every rule.
func small() *Matrix {
	run := func(archs ...string) map[string]Archive {
		m := map[string]Archive{}
		for _, a := range archs {
			m[a] = Archive{URL: "https://example.com/" + a + ".run", SHA256: goodSum}
		}
		return m
	}
	return &Matrix{
		Systems: []System{
			{ID: "ubuntu16.04", Archs: []string{"amd64"}, Kernels: []string{"4.4", "4.15"}},
			{ID: "debian11", Archs: []string{"amd64", "arm64"}, Kernels: []string{"5.10"}},
			{ID: "debian12", Archs: []string{"amd64", "arm64"}, Kernels: []string{"6.1"}},
		},
		Drivers: []Driver{
			{Version: "418.87.01", Branch: "R418", Archives: run("amd64"), Flavours: []string{Proprietary},
				Kernel: driverinfo.KernelRule{Min: "2.6.32", Max: "5.1", Reason: "because"}},
			{Version: "470.256.02", Branch: "R470", Flavours: []string{Proprietary},
				Debian: &Debian{Systems: []string{"debian11"}, Archs: []string{"amd64", "arm64"}}},
			{Version: "535.261.03", Branch: "R535", Archives: run("amd64", "arm64"), Flavours: []string{Proprietary, Open},
				Kernel: driverinfo.KernelRule{Min: "5.0", Max: "6.16", Reason: "so"}},
			{Version: "580.1", Branch: "R580", Archives: run("amd64"), Flavours: []string{Open}},
		},
		Exclude: []Exclusion{{System: "debian11", Driver: "535.*", Arch: "arm64", Reason: "crashes"}},
	}
}

// ruleCase is a pair and the rule that forbids it.
type ruleCase struct {
	system, driver, arch string
	flavour              string // "": all of the driver
	rule                 string // "": the pair works
	overridable          bool
}

func TestRules(t *testing.T) {
	t.Parallel()
	tests := []ruleCase{
		{system: "ubuntu16.04", driver: "418.87.01", arch: "amd64"},
		{system: "debian11", driver: "470.256.02", arch: "arm64"},
		{system: "debian12", driver: "535.261.03", arch: "arm64"},
		{system: "debian12", driver: "535.261.03", arch: "amd64", flavour: Open},
		{system: "debian12", driver: "418.87.01", arch: "amd64", rule: "kernel-too-new", overridable: true},
		{system: "ubuntu16.04", driver: "535.261.03", arch: "amd64", rule: "kernel-too-old", overridable: true},
		{system: "debian12", driver: "470.256.02", arch: "amd64", rule: "no-archive"},
		{system: "debian11", driver: "580.1", arch: "arm64", rule: "no-archive"},
		{system: "ubuntu16.04", driver: "580.1", arch: "arm64", rule: "arch-not-offered"},
		{system: "ubuntu16.04", driver: "418.87.01", arch: "amd64", flavour: Open, rule: "open-flavour-before-515", overridable: true},
		{system: "debian12", driver: "580.1", arch: "amd64", flavour: Proprietary, rule: "flavour-not-offered"},
		{system: "debian11", driver: "535.261.03", arch: "arm64", rule: "excluded", overridable: true},
		{system: "debian11", driver: "535.261.03", arch: "amd64"},
	}
	for _, tt := range tests {
		s := Selection{Systems: []string{tt.system}, Drivers: []string{tt.driver}, Archs: []string{tt.arch}}
		if tt.flavour != "" {
			s.Flavours = []string{tt.flavour}
		}
		got, err := small().Select(s)
		if tt.rule == "" {
			if err != nil || len(got) != 1 || got[0].Arch != tt.arch || got[0].Overridden != nil {
				t.Errorf("Select(%+v) = %+v, %v; want one target", s, got, err)
			}
			continue
		}
		var bad *IncompatibleError
		if !errors.As(err, &bad) || bad.Rule != tt.rule || bad.Reason == "" || bad.Overridable != tt.overridable {
			t.Errorf("Select(%+v) = %+v, %v; want the rule %s", s, got, err, tt.rule)
			continue
		}
		s.AllowIncompatible = true
		got, err = small().Select(s)
		if !tt.overridable {
			if !errors.As(err, &bad) || bad.Rule != tt.rule {
				t.Errorf("Select(%+v) = %v; %s cannot be overridden", s, err, tt.rule)
			}
			continue
		}
		if err != nil || len(got) != 1 || len(got[0].Overridden) != 1 || !strings.HasPrefix(got[0].Overridden[0], tt.rule+": ") {
			t.Errorf("Select(%+v) = %+v, %v; want %s overridden", s, got, err, tt.rule)
		}
	}
}

func TestSelect(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		s    Selection
		want []string
	}{
		{"one", Selection{Systems: []string{"ubuntu16.04"}, Drivers: []string{"418.87.01"}}, []string{"418.87.01-ubuntu16.04 amd64"}},
		{"matrix order, each once", Selection{
			Systems: []string{"debian12", "debian11", "debian12"}, Drivers: []string{"580.1", "535.261.03"}},
			[]string{"535.261.03-debian11 amd64", "580.1-debian11 amd64", "535.261.03-debian12 amd64", "580.1-debian12 amd64"}},
		{"two architectures", Selection{
			Systems: []string{"debian12"}, Drivers: []string{"535.261.03"}, Archs: []string{"arm64", "amd64"}},
			[]string{"535.261.03-debian12 amd64", "535.261.03-debian12 arm64"}},
		{"all, of amd64", Selection{All: true, Systems: []string{"debian12"}}, []string{"535.261.03-debian12 amd64", "580.1-debian12 amd64"}},
		{"all", Selection{All: true, Archs: knownArchs}, []string{
			"418.87.01-ubuntu16.04 amd64", "580.1-ubuntu16.04 amd64",
			"470.256.02-debian11 amd64", "470.256.02-debian11 arm64", "535.261.03-debian11 amd64", "580.1-debian11 amd64",
			"535.261.03-debian12 amd64", "535.261.03-debian12 arm64", "580.1-debian12 amd64"}},
		{"all of a system", Selection{All: true, Systems: []string{"debian12"}, Archs: []string{"arm64"}},
			[]string{"535.261.03-debian12 arm64"}},
		{"all of a driver", Selection{All: true, Drivers: []string{"418.87.01"}}, []string{"418.87.01-ubuntu16.04 amd64"}},
	}
	for _, tt := range tests {
		targets, err := small().Select(tt.s)
		var got []string
		for _, target := range targets {
			got = append(got, target.Tag()+" "+target.Arch)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" || err != nil {
			t.Errorf("%s: Select = %v (-want +got):\n%s", tt.name, err, diff)
		}
	}
	assert.Same(t, []string{"arm64"}, Selection{}.ArchsOf(System{Archs: []string{"arm64"}}))
}

func TestSelectErrors(t *testing.T) {
	t.Parallel()
	m := small()
	for _, s := range []Selection{{}, {Systems: []string{"debian12"}}, {Drivers: []string{"580.1"}}} {
		assert.ErrorContainsf(t, assert.Err(m.Select(s)), "nothing selected", "Select(%+v)", s)
	}
	_, err := m.Select(Selection{Systems: []string{"debain12", "zzz"}, Drivers: []string{"418.87.1"}, Archs: []string{"amd46"}, Flavours: []string{"opn"}})
	want := `unknown system "debain12" (did you mean debian12 or debian11?)
unknown system "zzz": driver-build list shows those of the matrix; a name that the GPU Operator asks for, such as rhcos4.18, is an alias of a row
unknown driver "418.87.1" (did you mean 418.87.01?)
unknown architecture "amd46" (did you mean amd64?)
unknown flavour "opn" (did you mean open?)`
	assert.Samef(t, want, err.Error(), "unknown names (-want +got)")
	for _, tt := range []struct {
		s    Selection
		want string
	}{
		{Selection{Systems: []string{"debian12.9"}}, "did you mean debian12?"}, {Selection{Drivers: []string{"R580"}}, "did you mean 580.1?"}, {Selection{Drivers: []string{"latest"}}, "driver-build list"},
		{Selection{Archs: []string{"x86_64"}}, "did you mean amd64?"}, {Selection{Archs: []string{"AARCH64"}}, "did you mean arm64?"},
		{Selection{Archs: []string{"mips"}}, "one of amd64, arm64"}, {Selection{Flavours: []string{"closed"}}, "did you mean proprietary?"},
	} {
		tt.s.All = true
		assert.ErrorContainsf(t, assert.Err(m.Select(tt.s)), tt.want, "%+v", tt.s)
	}
	_, err = m.Select(Selection{Systems: []string{"debian12"}, Drivers: []string{"418.87.01", "470.256.02"}})
	want = `driver 418.87.01 on debian12 amd64: the lowest kernel of debian12 is 6.1, driver 418.87.01 builds up to 5.1: because (rule kernel-too-new; --allow-incompatible overrides it)
driver 470.256.02 on debian12 amd64: driver 470.256.02 has neither an archive for amd64 nor Debian packages for it on debian12 (rule no-archive)`
	if err == nil {
		t.Fatal("Select of impossible pairs succeeded")
	}
	assert.Samef(t, want, err.Error(), "impossible pairs (-want +got)")
}
