package recipe

import (
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/images/matrix"
)

// TestCheckFlavours: a kernel that certainly breaks a flavour is refused, with the flavour that works there.
func TestCheckFlavours(t *testing.T) {
	t.Parallel()
	d := matrix.Driver{Version: "550.163.01", Flavours: []string{matrix.Proprietary, matrix.Open}, Kernel: driverinfo.KernelRule{Max: "6.14",
		Broken: []driverinfo.Broken{
			{From: "6.1.187", Below: "6.2", Flavours: []string{matrix.Open}, Reason: "four arguments"},
			{From: "6.13", Reason: "nothing"},
		}}}
	for _, c := range []struct {
		release, version, flavour string
		want                      string // in the error; "": none
	}{
		{"6.1.0-56-amd64", "6.1.192-2", matrix.Open, "--flavour proprietary works there"},
		{"6.1.0-56-amd64", "6.1.192-2", matrix.Proprietary, ""},
		{"6.1.0-50-amd64", "6.1.176-1", matrix.Open, ""},
		{"6.1.0-56-amd64", "", matrix.Open, ""},
		{"6.13.4", "", matrix.Proprietary, "driver 550.163.01 do not work on kernel 6.13.4, nor on any other from 6.13 on: nothing"},
		{"6.15.1", "", matrix.Open, "is newer than 6.14"},
	} {
		got := ""
		if err := CheckFlavours(d, distros.Kernel{Release: c.release, Version: c.version}, []string{c.flavour}); err != nil {
			got = err.Error()
		}
		assert.Equalf(t, c.want == "", got == "", "%s %s: %s", c.release, c.flavour, got)
		assert.Containsf(t, got, c.want, "%s %s", c.release, c.flavour)
	}
	target := matrix.Target{Driver: d, Flavours: d.Flavours, System: matrix.System{Kernels: []string{"6.1"}}}
	assert.Same(t, []string{"no open modules work from 6.1.187 on, below 6.2: four arguments"}, Limits(target))
	target.System.Kernels = []string{"6.2", "6.13"}
	assert.Same(t, []string{"no modules work from 6.13 on: nothing"}, Limits(target))
	target.Flavours, target.System.Kernels = []string{matrix.Proprietary}, []string{"6.1"}
	assert.Same(t, []string(nil), Limits(target))
}
