package modules

import (
	"strings"
	"testing"

	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/kmod/kbuild"
)

// TestMissingCompanions checks what preflight says of each reason why a companion will be missing or will not work.
func TestMissingCompanions(t *testing.T) {
	t.Parallel()
	const old, kernel = "2.13.5", "6.1.0-38-amd64"
	image := func(version string, flavours ...string) driverinfo.Description {
		return driverinfo.Description{Companions: []driverinfo.Companion{{Name: driverinfo.NvidiaFS, Version: version, Flavours: flavours}}}
	}
	set := &kbuild.Set{Modules: []kbuild.File{{Name: "nvidia"}, {Name: "nvidia-fs"}}}
	without := &kbuild.Set{Modules: []kbuild.File{{Name: "nvidia"}}, Omitted: []kbuild.Omission{{Module: "nvidia-fs", Reason: "nvfs-core.c:2282: error: conflicting types"}}}
	for _, test := range []struct {
		name    string
		info    driverinfo.Description
		flavour string
		kernel  string
		set     *kbuild.Set
		says    string
		fix     string
	}{
		{"nothing to say", image(old), driverinfo.Proprietary, kernel, set, "nvidia-fs 2.13.5", ""},
		{"to be compiled", image(old), driverinfo.Open, kernel, nil, "nvidia-fs 2.13.5 will be compiled", ""},
		{"not in the image", driverinfo.Description{}, driverinfo.Open, kernel, set, "GPUDirect Storage will be missing: the image has no nvidia-fs", "--gds (GDS_ENABLED) off"},
		{"for the other flavour", image("2.28.4", driverinfo.Open), driverinfo.Proprietary, kernel, set, "is for the open kernel modules, and not for the proprietary ones", "KERNEL_MODULE_TYPE=open"},
		{"new, closed", image("2.17.5"), driverinfo.Proprietary, kernel, set, "nvidia-fs 2.17.5 needs the open kernel modules", "KERNEL_MODULE_TYPE=open"},
		{"new, open", image("2.17.5"), driverinfo.Open, "6.12.1", set, "nvidia-fs 2.17.5", ""},
		{"symbol_get", image(old), driverinfo.Proprietary, "6.12.48+deb13-amd64", set, "kernel 6.12.48+deb13-amd64 refuses", "KERNEL_MODULE_TYPE=open"},
		{"left out", image(old), driverinfo.Proprietary, kernel, without, "GPUDirect Storage will be missing: the modules for kernel  have no nvidia-fs 2.13.5: nvfs-core.c:2282: error", "compiles for this kernel"},
	} {
		text, fix := Group{Info: test.info, Wanted: Wanted(true, false), Flavour: test.flavour, Set: test.set}.Check(test.kernel)
		if !strings.Contains(text, test.says) || (fix == "") != (test.fix == "") || !strings.Contains(fix, test.fix) {
			t.Errorf("%s: %s (%s)", test.name, text, fix)
		}
	}
	text, fix := Group{Info: image(old), Wanted: Wanted(true, true), Flavour: driverinfo.Open, Set: set}.Check(kernel)
	if text != "GDRCopy will be missing: the image has no gdrdrv; nvidia-fs 2.13.5" || !strings.HasPrefix(fix, "Use an image") || !strings.Contains(fix, "--gdrcopy") {
		t.Errorf("%s (%s)", text, fix)
	}
}
