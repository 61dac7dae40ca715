package fabric

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
)

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
