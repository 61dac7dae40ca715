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
		level            Level
		want             string
	}{
		"none":     {want: "no NVLink switches"},
		"unknown":  {edit: func(_ *Facts, h *Host) { h.Err = errors.New("denied") }, level: Unknown, want: "is not known: denied"},
		"switches": {files: switches, want: "1 NVSwitch (0000:05:00.0); the image has the fabric manager"},
		"external": {files: switches, edit: func(_ *Facts, h *Host) { h.Managed = false }, want: "does not manage them (--fabric)"},
		"no bridge": {edit: func(f *Facts, _ *Host) { f.Machine.Baseboard = []string{"0000:17:00.0"} }, level: Doubtful,
			want: "the GPUs 0000:17:00.0 need NVLink switches, and no ConnectX function"},
		"unreadable": {edit: func(f *Facts, _ *Host) {
			f.Machine.Baseboard, f.Machine.Unreadable = []string{"0000:17:00.0"}, []string{"EIO"}
		},
			level: Doubtful, want: "and those cannot be read: EIO"},
		"no modules": {files: five, loaded: []string{"mlx5_core"}, level: Doubtful, want: "the kernel has no mlx5_ib, ib_umad, which"},
		"loadable":   {files: five, loaded: []string{"mlx5_core"}, loadable: []string{"mlx5_ib", "ib_umad"}, want: "mlx5_ib, ib_umad will be loaded"},
		"loaded":     {files: five, loaded: Modules(), want: "the kernel the modules"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, h := machine(t, c.files), Host{Managed: true}
			if c.edit != nil {
				c.edit(&f, &h)
			}
			got := f.Check(h, Kernel{Loaded: func(name string) bool { return slices.Contains(c.loaded, name) }, Loadable: func(name string) bool { return slices.Contains(c.loadable, name) }})
			if got.Level != c.level || (got.Fix == "") != (c.level == Fine || c.level == Unknown) {
				t.Errorf("%+v", got)
			}
			assert.Contains(t, got.Text, c.want)
		})
	}
}
