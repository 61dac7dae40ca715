package matrix

import (
	"errors"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/distros/driverinfo"
)

const goodCompanion = `{name: nvidia-fs, version: 2.13.5, debian: {package: nvidia-fs-dkms, systems: {debian12: 2.13.5~11.8.0-5~deb12u1}}, ` +
	`archs: [amd64], drivers: {from: 535, below: 550}, flavours: [proprietary], licence: MIT, reason: compiled}`

const archiveCompanion = `{name: gdrdrv, version: 2.5.2, archive: {url: "https://example.com/gdrcopy-2.5.2.tar.gz", sha256: ` + goodSum + `}, licence: MIT OR GPL-2.0-only, reason: r}`

func TestCompanionMistakes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ old, with, want string }{
		{"nvidia-fs, version", "nvidia-peermem, version", `name "nvidia-peermem" is not known`},
		{"version: 2.13.5", "version: ../2", `version "../2" is no version, such as 2.13.5`},
		{"debian12: 2.13.5", "debian12: 2.19.7", `Debian version "2.19.7~11.8.0-5~deb12u1" is not one of nvidia-fs 2.13.5`},
		{"{debian12: 2", "{debian99: 2", `key "debian99" of systems is no known system`},
		{"debian: {package: nvidia-fs-dkms, systems: {debian12: 2.13.5~11.8.0-5~deb12u1}}, ", "", "needs one of archive and debian"},
		{"archs: [amd64]", `archive: {url: "https://example.com/x.tar.gz", sha256: ` + goodSum + `}`, "needs one of archive and debian"},
		{"archs: [amd64]", `archive: {url: "https://example.com/x.zip", sha256: ` + goodSum + `}`, "must have a path that ends in .tar.gz or .tar.xz"},
		{"archs: [amd64]", "archs: [riscv64]", `"riscv64" is not known`},
		{"from: 535", "from: R535", `from "R535" is no driver version and no branch`},
		{"from: 535", "from: 550", "the range of drivers begins at 550, which is not below 550"},
		{"[proprietary]", "[closed]", `"closed" is not known`},
		{"licence: MIT", "licence: free", ""},
		{"licence: MIT, ", "", "has no key licence"},
		{", reason: compiled", "", "has no key reason"},
		{"reason: compiled}", "reason: compiled}, " + goodCompanion, `companion "nvidia-fs 2.13.5" appears twice`},
		{"archs:", "arch:", `unknown key "arch" in a companion`},
	} {
		text := strings.Replace(goodCompanion, c.old, c.with, 1)
		if text == goodCompanion {
			t.Fatalf("%s: nothing was changed", c.old)
		}
		_, err := Parse("m", []byte(file(goodSystem, driverYAML("535.261.03", ""), "companions: ["+text+"]")))
		if c.want == "" {
			require.NoErrorf(t, err, "%s", c.with)
		} else if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.with, err, c.want)
		}
	}
}

// TestCompanions: a target has the newest companion that fits, and a name that none fits is refused unless
// every pair is selected.
func TestCompanions(t *testing.T) {
	t.Parallel()
	newer := strings.NewReplacer("2.13.5", "2.13.10", "below: 550", "below: 536").Replace(goodCompanion)
	open := strings.NewReplacer("2.13.5", "2.19.7", "[proprietary]", "[open]", "from: 535, below: 550", "from: 550, below: 560").Replace(goodCompanion)
	m := require.Value(Parse("m", []byte(file(goodSystem, driverYAML("535.261.03", ", flavours: [proprietary]")+", "+driverYAML("545.1.1", "")+", "+driverYAML("550.1.1", ""),
		"companions: ["+strings.Join([]string{goodCompanion, newer, open, archiveCompanion}, ", ")+"]"))))(t)
	for _, c := range []struct {
		driver string
		names  []string
		want   string // or the error
	}{
		{"535.261.03", nil, ""},
		{"535.261.03", []string{driverinfo.NvidiaFS}, "nvidia-fs 2.13.10"},
		{"545.1.1", []string{driverinfo.NvidiaFS, driverinfo.GDRDrv}, "gdrdrv 2.5.2, nvidia-fs 2.13.5"},
		{"550.1.1", []string{AllCompanions}, "gdrdrv 2.5.2, nvidia-fs 2.19.7"},
	} {
		got := require.Value(m.Select(Selection{Systems: []string{"debian12"}, Drivers: []string{c.driver}, Companions: c.names}))(t)
		var all []string
		for _, one := range got[0].Companions {
			all = append(all, one.Name+" "+one.Version)
		}
		assert.Equalf(t, c.want, strings.Join(all, ", "), "%s %q", c.driver, c.names)
	}
	s := Selection{Systems: []string{"debian12"}, Drivers: []string{"545.1.1"}, Archs: []string{"arm64"}, Companions: []string{driverinfo.NvidiaFS}, AllowIncompatible: true}
	_, err := m.Select(s)
	if no, ok := errors.AsType[*IncompatibleError](err); !ok || no.Rule != "no-archive" {
		t.Errorf("an architecture without an archive: %v", err)
	}
	s.Archs = []string{"amd64"}
	s.Flavours = []string{Open}
	_, err = m.Select(s)
	if err == nil || !strings.Contains(err.Error(), "no nvidia-fs fits: 2.13.5 needs the proprietary modules; 2.13.10 needs a driver below 536") {
		t.Errorf("reasons: %v", err)
	}
	s.Flavours, s.IfTheyFit = nil, true
	for _, target := range require.Value(m.Select(Selection{Systems: s.Systems, Drivers: s.Drivers, Companions: []string{driverinfo.GDRDrv, AllCompanions}, IfTheyFit: true}))(t) {
		assert.Equalf(t, false, target.Companions[0].Named, "%s may go without", target.Tag())
	}
	s.All, s.AllowIncompatible, s.Flavours, s.Archs = true, false, nil, []string{"arm64"}
	for _, target := range require.Value(m.Select(s))(t) {
		assert.Equalf(t, 0, len(target.Companions), "%s", target.Tag())
	}
	_, err = m.Select(Selection{All: true, Companions: []string{"nvidia_fs"}})
	if err == nil || !strings.Contains(err.Error(), `unknown companion "nvidia_fs" (did you mean nvidia-fs?)`) {
		t.Errorf("a wrong name: %v", err)
	}
	assert.Equal(t, "nvidia-fs-dkms=2.13.5~11.8.0-5~deb12u1", m.Companions[0].Wants("debian12"))
}
