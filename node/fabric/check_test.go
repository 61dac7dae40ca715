package fabric

import (
	"errors"
	"slices"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	switches := join(image, nvswitch("0000:05:00.0"), map[string]string{"root/" + fmProgram: "x"})
	five := join(image, map[string]string{"root/" + fmProgram: "x"}, card("0000:05:00.0", "", management))
	for name, c := range map[string]struct {
		files            map[string]string
		edit             func(*Facts, *Host)
		loaded, loadable []string
		doubt            bool
		want             string
	}{
		"none":     {want: "no NVLink switches"},
		"unknown":  {edit: func(_ *Facts, h *Host) { h.Err = errors.New("denied") }, doubt: true, want: "is not known: denied"},
		"switches": {files: switches, want: "1 NVSwitch (0000:05:00.0); the image has the fabric manager"},
		"external": {files: switches, edit: func(_ *Facts, h *Host) { h.Managed = false }, want: "does not manage them (--fabric)"},
		"no bridge": {edit: func(f *Facts, _ *Host) { f.Machine.Baseboard = []string{"0000:17:00.0"} }, doubt: true,
			want: "the GPUs 0000:17:00.0 need NVLink switches, and no ConnectX function"},
		"unreadable": {edit: func(f *Facts, _ *Host) {
			f.Machine.Baseboard, f.Machine.Unreadable = []string{"0000:17:00.0"}, []string{"EIO"}
		},
			doubt: true, want: "and those cannot be read: EIO"},
		"no modules": {files: five, loaded: []string{"mlx5_core"}, doubt: true, want: "the kernel has no mlx5_ib, ib_umad, which"},
		"loadable":   {files: five, loaded: []string{"mlx5_core"}, loadable: []string{"mlx5_ib", "ib_umad"}, want: "mlx5_ib, ib_umad will be loaded"},
		"loaded":     {files: five, loaded: Modules(), want: "the kernel the modules"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, h := machine(t, c.files), Host{Managed: true}
			if c.edit != nil {
				c.edit(&f, &h)
			}
			loaded := func(name string) bool { return slices.Contains(c.loaded, name) }
			text, fix, fatal := f.Check(h, Kernel{Loaded: loaded, Loadable: func(name string) bool { return slices.Contains(c.loadable, name) }})
			if fatal || (fix != "") != c.doubt {
				t.Errorf("%s (%s), fatal: %v", text, fix, fatal)
			}
			assert.Contains(t, text, c.want)
		})
	}
}
