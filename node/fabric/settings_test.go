package fabric

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/node/probe"
)

// The mounted file replaces the image's, and the environment's settings count more.
func TestMountedConfiguration(t *testing.T) {
	t.Parallel()
	f := machine(t, image, nvswitch("0000:05:00.0"), map[string]string{"drivers/fabricmanager.cfg": "LOG_LEVEL=3\nFABRIC_MODE=2", "drivers/nvlsm.conf": "guid 0x1\n"})
	f.Settings = map[string]string{"LOG_LEVEL": "1", "FABRIC_MODE": "0"}
	require.NoError(t, f.withDefaults().configure())
	assert.Equal(t, "DAEMONIZE=1\nFABRIC_MODE=0\nLOG_LEVEL=1\n", string(require.Value(os.ReadFile(f.config()))(t)))
	_, path, err := f.base(smConfigName, smConfig)
	require.NoError(t, err)
	assert.Equal(t, filepath.Join(f.Drivers, "nvlsm.conf"), path)
}

// With NVLink 5 a change to shared switches resets the GPUs once.
func TestReset(t *testing.T) {
	t.Parallel()
	f := machine(t, image, modules, card("0000:05:00.0", "mlx5_0", management, usable),
		map[string]string{"root/usr/bin/nvidia-smi": "#!/bin/sh\necho $1 >>\"${0%/*}/reset\"\nexit 3\n"})
	specs := require.Value(Daemons(f))(t)
	assert.Equalf(t, true, specs[1].After == nil, "no reset without a change of the mode")
	f.Mode = ModeShared
	specs = require.Value(Daemons(f))(t)
	assert.ErrorContains(t, specs[1].After(t.Context()), "exit code 3")
	assert.Equal(t, "-r\n", string(require.Value(os.ReadFile(f.path("usr/bin/reset")))(t)))
}

func TestJudge(t *testing.T) {
	t.Parallel()
	gpu := func(address string, f *probe.Fabric) probe.Device { return probe.Device{PCI: address, Fabric: f} }
	for name, c := range map[string]struct {
		devices []probe.Device
		want    [3]string // pending, failed, warnings
	}{
		"none":      {[]probe.Device{gpu("a", nil)}, [3]string{}},
		"completed": {[]probe.Device{gpu("a", &probe.Fabric{State: probe.FabricCompleted})}, [3]string{}},
		"pending": {[]probe.Device{gpu("a", &probe.Fabric{State: probe.FabricInProgress}), gpu("b", &probe.Fabric{State: probe.FabricNotStarted}), gpu("c", nil)},
			[3]string{"the registration with the NVLink fabric is not started on 1 of 3 GPUs (b), in progress on 1 of 3 GPUs (a)"}},
		"failed": {[]probe.Device{gpu("b", &probe.Fabric{State: probe.FabricCompleted, Error: "Timeout"}), gpu("a", &probe.Fabric{State: probe.FabricCompleted, Error: "x"})},
			[3]string{"", "the registration with the NVLink fabric failed: GPU a: x; GPU b: Timeout"}},
		"notes": {[]probe.Device{gpu("a", &probe.Fabric{State: probe.FabricUnknown, Error: "x"}), gpu("b", &probe.Fabric{State: probe.FabricCompleted, Health: []string{"route unhealthy"}})},
			[3]string{"", "", "GPU a: the state of the NVLink fabric is not known: x; GPU b: the NVLink fabric is not healthy: route unhealthy"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var warnings []string
			pending, failed := judge(c.devices, func(format string, args ...any) { warnings = append(warnings, fmt.Sprintf(format, args...)) })
			assert.Equal(t, c.want, [3]string{pending, failed, strings.Join(warnings, "; ")})
		})
	}
}

func FuzzApply(f *testing.F) {
	f.Add([]byte("A=1\n# A=2\nB = 3"), "A", "x")
	f.Fuzz(func(t *testing.T, text []byte, key, value string) {
		settings := map[string]string{key: value}
		if checkSettings(settings) != nil {
			return
		}
		out := apply(text, settings)
		for k, v := range settings {
			assert.Containsf(t, "\n"+string(out), "\n"+k+"="+v+"\n", "applied")
		}
		assert.Equalf(t, string(out), string(apply(out, settings)), "again")
	})
}

// TestCheck: what a machine, an image and settings are told before a start. The start says the same where it is fatal.
func TestCheck(t *testing.T) {
	t.Parallel()
	alone := nvswitch("0000:05:00.0")
	switches, five := join(image, alone), join(image, card("0000:05:00.0", "", management))
	mounted := func(text string) map[string]string {
		return join(switches, map[string]string{"drivers/fabricmanager.cfg": text})
	}
	set := func(key, value string) func(*Facts, *Host) {
		return func(f *Facts, _ *Host) { f.Settings = map[string]string{key: value} }
	}
	const doubt, fatal = "doubt", "fatal"
	for name, c := range map[string]struct {
		files            map[string]string
		edit             func(*Facts, *Host)
		loaded, loadable []string
		is, want         string
	}{
		"none":     {want: "no NVLink switches"},
		"unknown":  {edit: func(_ *Facts, h *Host) { h.Err = errors.New("denied") }, is: doubt, want: "is not known: denied"},
		"switches": {files: switches, want: "1 NVSwitch (0000:05:00.0); the image has the fabric manager"},
		"external": {files: switches, edit: func(_ *Facts, h *Host) { h.Managed = false }, want: "does not manage them (--fabric)"},
		"no bridge": {edit: func(f *Facts, _ *Host) { f.Machine.Baseboard = []string{"0000:17:00.0"} }, is: doubt,
			want: "the GPUs 0000:17:00.0 need NVLink switches, and no ConnectX function"},
		"unreadable": {edit: func(f *Facts, _ *Host) {
			f.Machine.Baseboard, f.Machine.Unreadable = []string{"0000:17:00.0"}, []string{"EIO"}
		}, is: doubt, want: "and those cannot be read: EIO"},
		"no modules": {files: five, loaded: []string{"mlx5_core"}, is: doubt, want: "the kernel has no mlx5_ib, ib_umad, which"},
		"loadable":   {files: five, loaded: []string{"mlx5_core"}, loadable: []string{"mlx5_ib", "ib_umad"}, want: "mlx5_ib, ib_umad will be loaded"},
		"loaded":     {files: five, loaded: Modules(), want: "the kernel the modules"},

		"another image":     {files: alone, is: fatal, want: "lacks /" + fmConfig + ", /" + fmProgram + ": every CUDA program would fail with error 802"},
		"no subnet manager": {files: join(five, map[string]string{"root/" + smProgram: "-> gone"}), is: fatal, want: "lacks /" + smProgram},
		"a mounted file":    {files: mounted("# ours\nLOG_LEVEL=3\n\nFABRIC_MODE = 2\n")},
		"a wrong one":       {files: mounted("# ours\nLOG_LEVEL: 3\n"), is: fatal, want: `fabricmanager.cfg:2: "LOG_LEVEL: 3" is no setting`},
		"beyond its bound":  {files: mounted(strings.Repeat("#", maxConfig+1)), is: fatal, want: "larger than 1048576 bytes"},
		"a bad key":         {files: switches, edit: set("a.b", "1"), is: fatal, want: "NVFM_CONFIG_a.b"},
		"two lines":         {files: switches, edit: set("A", "1\nB=2"), is: fatal, want: "more than one line"},
		"ours":              {files: switches, edit: set("DAEMONIZE", "0"), is: fatal, want: "belongs to the supervisor"},
		"two modes":         {files: switches, edit: func(f *Facts, h *Host) { set(modeKey, "2")(f, h); f.Mode = ModeShared }, is: fatal, want: "set one of them"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, h := machine(t, c.files), Host{Managed: true}
			if c.edit != nil {
				c.edit(&f, &h)
			}
			in := func(names []string) func(string) bool {
				return func(name string) bool { return slices.Contains(names, name) }
			}
			text, fix, stops := f.Check(h, Kernel{Loaded: in(c.loaded), Loadable: in(c.loadable)})
			if stops != (c.is == fatal) || (fix != "") != (c.is != "") {
				t.Errorf("%s (%s), fatal: %v", text, fix, stops)
			}
			assert.Contains(t, text, c.want)
			if _, err := Daemons(f); (err != nil) != (c.is == fatal) {
				t.Errorf("the start says %v", err)
			}
		})
	}
}
