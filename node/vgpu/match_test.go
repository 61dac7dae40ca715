package vgpu

import (
	"errors"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/require"
	"github.com/driver-container/driver-container/node/devices"
)

// catalogue is one as NVIDIA writes them, with rules of every kind.
const catalogue = `
version: 1
date: "2025-02-01"
branch:
  - {name: R535_00, type: host, allow: {branch: [R535_00, R550_00]}}
  - {name: R550_00, type: host, allow: {branch: [R535_00, R550_00]}, deny: {branch: [R470_00]}, properties: [x]}
  - {name: R570_00, type: host, allow: {branch: [R570_00, R550_00], gpu: [{devid: "0x20B5", ssid: "0x1533"}]}}
  - {name: R580_00, type: host, allow: {branch: [R580_00]}, deny: {gpu: [{devid: "0x20b5"}]}}
  - {name: R470_00, type: guest, allow: {branch: [R535_00, R550_00]}}
  - {name: R535_00, type: guest, allow: {branch: [R535_00, R550_00]}}
  - {name: R550_00, type: guest, allow: {branch: [R550_00, R570_00], cpu: [x86]}}
  - {name: R570_00, type: guest, allow: {branch: [R570_00]}, deny: {cpu: [x86]}}
driver:
  - {version: 550.144.02, date: "2025-01-16", branch: R550_00, type: host, deny: {driver: [{version: 535.154.05}]}, hypervisor: [KVM]}
  - {version: 550.90.05, date: "2024-06-04", branch: R550_00, type: host, allow: {driver: [{version: 550.90.07}]}}
  - {version: 535.154.05, date: "2024-01-16", branch: R535_00, type: guest, os: [Linux]}
  - {version: 535.230.02, date: "2025-01-16", branch: R535_00, type: guest, os: [Linux]}
  - {version: 550.90.07, date: "2024-06-04", branch: R550_00, type: guest, os: [Linux], deny: {driver: [{version: 535.230.02}]}}
  - {version: 550.144.03, date: "2025-01-16", branch: R550_00, type: guest, os: [Linux]}
  - {version: 553.62, date: "2025-01-16", branch: R550_00, type: guest, os: [Windows]}
  - {version: 470.256.02, date: "2024-06-04", branch: R470_00, type: guest, os: [Linux], allow: {driver: [{version: 535.230.02}]}}
  - {version: 570.86.15, date: "2025-01-27", branch: R570_00, type: guest, os: [Linux]}
`

func guest(version, branch string) Guest {
	return Guest{GPU: devices.GPU{Address: "0000:01:00.0", Device: 0x20b5, SubDevice: 0x1533}, Host: Host{version, branch}}
}

// TestMatch: the rules of allow and deny on both sides, by branch, driver and GPU.
func TestMatch(t *testing.T) {
	t.Parallel()
	c := require.Value(ParseCatalogue([]byte(catalogue)))(t)
	other := guest("570.86.10", "R570_00")
	other.GPU.SubDevice = 0x9999
	for _, tt := range []struct {
		name    string
		guest   Guest
		driver  string
		fits    bool
		reason  string
		fitting string
	}{
		{"the same branch", guest("550.144.02", "R550_00"), "550.144.03", true, "", "550.144.03 535.230.02 550.90.07"},
		{"an older guest", guest("550.144.02", "R550_00"), "535.230.02", true, "", "550.144.03 535.230.02 550.90.07"},
		{"denied by the host's driver", guest("550.144.02", "R550_00"), "535.154.05", false, "host driver 550.144.02 does not work with guest driver 535.154.05", "550.144.03 535.230.02 550.90.07"},
		{"branch denied by the host", guest("550.144.02", "R550_00"), "470.256.02", false, "branch R470_00 of guest driver 470.256.02 does not work with branch R550_00", "550.144.03 535.230.02 550.90.07"},
		{"the host's driver allows others", guest("550.90.05", "R550_00"), "550.144.03", false, "host driver 550.90.05 works with other guest drivers only", "550.90.07"},
		{"a host's driver without an entry", guest("550.54.10", "R550_00"), "550.144.03", true, "", "550.144.03 535.230.02 550.90.07 535.154.05"},
		{"a newer guest than the host allows", guest("535.230.02", "R535_00"), "550.90.07", false, "guest driver 550.90.07 does not work with host driver 535.230.02", "535.230.02 470.256.02 535.154.05"},
		{"allowed by version", guest("535.230.02", "R535_00"), "470.256.02", true, "", "535.230.02 470.256.02 535.154.05"},
		{"branches that do not allow each other", guest("535.230.02", "R535_00"), "550.144.03", false, "branch R550_00 of guest driver 550.144.03 does not work with branch R535_00", "535.230.02 470.256.02 535.154.05"},
		{"small letters", guest("550.144.02", "r550_00"), "550.144.03", true, "", "550.144.03 535.230.02 550.90.07"},
		{"a driver that is not there", guest("550.144.02", "R550_00"), "550.1.1", false, "does not have the guest driver 550.1.1", "550.144.03 535.230.02 550.90.07"},
		{"a driver for Windows", guest("550.144.02", "R550_00"), "553.62", false, "does not have the guest driver 553.62", "550.144.03 535.230.02 550.90.07"},
		{"a branch that is not there", guest("590.1.1", "R590_00"), "550.144.03", false, "does not have the host's branch R590_00: get a newer one", ""},
		{"a branch for this GPU", guest("570.86.10", "R570_00"), "550.144.03", true, "", "550.144.03 550.90.07"},
		{"a branch for another GPU", other, "550.144.03", false, "does not have the host's branch R570_00", ""},
		{"a branch that denies this GPU", guest("580.1.1", "R580_00"), "550.144.03", false, "does not have the host's branch R580_00", ""},
		{"a guest branch that denies x86", guest("570.86.10", "R570_00"), "570.86.15", false, "branch R570_00 of guest driver 570.86.15", "550.144.03 550.90.07"},
	} {
		got := c.Match(tt.guest, tt.driver)
		assert.Equalf(t, tt.fits, got.Fits, "%s: %+v", tt.name, got)
		assert.Containsf(t, got.Reason, tt.reason, "%s", tt.name)
		assert.Equalf(t, tt.reason == "", got.Reason == "", "%s: %s", tt.name, got.Reason)
		assert.Equalf(t, tt.fitting, strings.Join(got.Fitting, " "), "%s: drivers that fit", tt.name)
	}
}

// TestCatalogueRefused: what no catalogue holds.
func TestCatalogueRefused(t *testing.T) {
	t.Parallel()
	const branch, driver = "branch: [{name: R1, type: host}]\n", "driver: [{version: 1.1, type: guest}]\n"
	for name, text := range map[string]string{
		"nothing": "", "a word": "hello", "a list": "[1, 2]", "no drivers": branch, "no branches": driver, "broken": "branch: [",
		"a name missing": "branch: [{type: host}]\n" + driver, "a type": "branch: [{name: R1, type: both}]\n" + driver,
		"a version missing": branch + "driver: [{type: guest}]\n", "another type": branch + "driver: [{version: 1.1, type: x}]\n",
		"an escape": "branch: [{name: \"\\e[2J\", type: host}]\n" + driver, "an escape in the date": "date: \"\\e[2J\"\n" + branch + driver,
		"a long name": "branch: [{name: " + strings.Repeat("R", 65) + ", type: host}]\n" + driver,
		"aliases":     "x: &x [1]\ny: [*x, *x]\n" + branch + driver, "deep": branch + driver + "x: " + strings.Repeat("[", 40) + strings.Repeat("]", 40),
		"many":   "branch: [" + strings.Repeat("{name: R1, type: host},", maxCatalogueEntries+1) + "]\n" + driver,
		"large":  branch + driver + "# " + strings.Repeat("x", maxCatalogue),
		"binary": "\x00\x01", "a number": "branch: 1\ndriver: 2\n",
	} {
		_, err := ParseCatalogue([]byte(text))
		assert.ErrorIsf(t, err, ErrCatalogue, "%s", name)
	}
}

// FuzzCatalogue: no text makes reading or matching fail in another way.
func FuzzCatalogue(f *testing.F) {
	f.Add([]byte(catalogue), "550.144.03")
	f.Add([]byte("branch: [{name: R550_00, type: host}]\ndriver: [{version: 1.1, type: guest}]\n"), "1.1")
	f.Fuzz(func(t *testing.T, text []byte, version string) {
		c, err := ParseCatalogue(text)
		if err != nil {
			if !errors.Is(err, ErrCatalogue) {
				t.Errorf("%v", err)
			}
			return
		}
		if a := c.Match(guest("550.144.02", "R550_00"), version); a.Fits != (a.Reason == "") {
			t.Errorf("%+v", a)
		}
	})
}
