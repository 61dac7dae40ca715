package vgpu

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/require"
	"github.com/driver-container/driver-container/node/devices"
)

// space returns a configuration space with capabilities: the first at 0x40, each leading to the next.
func space(capabilities ...[]byte) []byte {
	config := make([]byte, configSize)
	config[statusByte], config[listPointer] = hasList, 0x40
	at := 0x40
	for i, c := range capabilities {
		copy(config[at:], c)
		next := at + (len(c)+3)&^3
		if i+1 < len(capabilities) {
			config[at+1] = byte(next)
		}
		at = next
	}
	return config
}

// power is a capability that all GPUs have.
var power = []byte{0x01, 0, 3, 0, 0, 0, 0, 0}

// guestCapability is the capability of a vGPU with these records.
func guestCapability(records ...[]byte) []byte {
	c := append([]byte{vendorSpecific, 0, 0, 'V', 'F'}, bytes.Join(records, nil)...)
	c[2] = byte(len(c))
	return c
}

// hostOf is the record of the host's driver.
func hostOf(version, branch string) []byte {
	r := make([]byte, 2+2*wordLength)
	r[0], r[1] = hostRecord, byte(len(r))
	copy(r[2:12], version)
	copy(r[12:], branch)
	return r
}

// TestParse: what a host may say, and what no host may.
func TestParse(t *testing.T) {
	t.Parallel()
	host := hostOf("550.144.02", "r550_00")
	at := func(config []byte, place int, value byte) []byte { config[place] = value; return config }
	for name, c := range map[string]struct {
		config []byte
		want   Host
		guest  bool
		err    string
	}{
		"a vGPU":                    {config: space(power, guestCapability(host)), want: Host{"550.144.02", "R550_00"}, guest: true},
		"the only capability":       {config: space(guestCapability(host)), want: Host{"550.144.02", "R550_00"}, guest: true},
		"another record before it":  {config: space(guestCapability([]byte{1, 4, 9, 9}, host)), want: Host{"550.144.02", "R550_00"}, guest: true},
		"ten bytes without zeros":   {config: space(guestCapability(hostOf("535.183.06", "R535_00_01"))), want: Host{"535.183.06", "R535_00_01"}, guest: true},
		"4 KiB":                     {config: append(space(guestCapability(host)), make([]byte, 4096-256)...), want: Host{"550.144.02", "R550_00"}, guest: true},
		"no record of the host":     {config: space(guestCapability([]byte{1, 4, 9, 9})), guest: true},
		"no record":                 {config: space(guestCapability()), guest: true},
		"another vendor's":          {config: space([]byte{vendorSpecific, 0, 8, 'X', 'F', 0, 0, 0})},
		"no capability":             {config: space(power)},
		"no list":                   {config: make([]byte, configSize)},
		"does not answer":           {config: bytes.Repeat([]byte{0xff}, configSize)},
		"64 bytes":                  {config: space(guestCapability(host))[:64], err: "only 64 bytes can be read"},
		"nothing":                   {err: "only 0 bytes"},
		"loop":                      {config: at(space(power, power), 0x49, 0x40), err: "loops at byte 64"},
		"loop of one":               {config: at(space(power), 0x41, 0x40), err: "loops at byte 64"},
		"into the header":           {config: at(space(power), 0x41, 0x04), err: "a capability is at byte 4"},
		"length over the end":       {config: at(space(guestCapability(host)), 0x42, 0xff), err: "has the length 255"},
		"length zero":               {config: at(space(guestCapability(host)), 0x42, 0), err: "has the length 0"},
		"record over the end":       {config: space(guestCapability([]byte{1, 200})), guest: true, err: "record 1 of the vGPU at byte 5 has the length 200"},
		"record of length zero":     {config: space(guestCapability([]byte{1, 0, 0, 0})), guest: true, err: "has the length 0"},
		"record of the host, short": {config: space(guestCapability([]byte{0, 4, 'x', 'y'})), guest: true, err: "has 4 bytes, it needs 22"},
		"control characters":        {config: space(guestCapability(hostOf("550\x1b[2J", "R550"))), guest: true, err: "is no version and no branch"},
		"no version":                {config: space(guestCapability(hostOf("", "R550"))), guest: true, err: "is no version and no branch"},
	} {
		h, guest, err := Parse(c.config)
		if c.err != "" {
			assert.ErrorContainsf(t, err, c.err, "%s", name)
			assert.ErrorIsf(t, err, ErrConfigSpace, "%s", name)
		} else {
			assert.NoErrorf(t, err, "%s", name)
		}
		assert.Equalf(t, c.guest, guest, "%s", name)
		if err == nil {
			assert.Equalf(t, c.want, h, "%s", name)
		}
	}
}

// FuzzParse: no configuration space makes the reader leave it, or return words that messages cannot show.
func FuzzParse(f *testing.F) {
	f.Add(space(power, guestCapability(hostOf("550.144.02", "r550_00"))))
	f.Add(bytes.Repeat([]byte{0xff}, configSize))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, config []byte) {
		h, guest, err := Parse(config)
		if err != nil && !errors.Is(err, ErrConfigSpace) {
			t.Errorf("%v", err)
		}
		if err == nil && h != (Host{}) && (!guest || !word().MatchString(h.Version) || !word().MatchString(h.Branch)) {
			t.Errorf("%+v", h)
		}
	})
}

// bus makes a sysfs with GPUs that have these configuration spaces.
func bus(t *testing.T, configs ...[]byte) (sys string, gpus []devices.GPU) {
	t.Helper()
	sys = t.TempDir()
	for i, config := range configs {
		g := devices.GPU{Address: "0000:0" + string(rune('1'+i)) + ":00.0", Vendor: devices.NVIDIA, Device: 0x20b5, SubDevice: 0x1533}
		dir := filepath.Join(sys, "bus/pci/devices", g.Address)
		require.NoError(t, os.MkdirAll(dir, 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "config"), config, 0o600))
		gpus = append(gpus, g)
	}
	return sys, gpus
}

// TestDetect: one GPU that cannot be understood does not hide the others.
func TestDetect(t *testing.T) {
	t.Parallel()
	sys, gpus := bus(t, space(power), space(guestCapability(hostOf("550.144.02", "R550"))), space(guestCapability([]byte{1, 0})), nil)
	gpus = append(gpus, devices.GPU{Address: "0000:09:00.0", Silent: true})
	guests, err := Detect(sys, gpus)
	assert.ErrorContains(t, err, "GPU 0000:03:00.0: malformed", "GPU 0000:04:00.0: malformed configuration space: only 0 bytes")
	if len(guests) != 2 || guests[0].GPU.Address != "0000:02:00.0" || guests[0].Host.Version != "550.144.02" || guests[1].Host != (Host{}) {
		t.Errorf("%+v", guests)
	}
}
