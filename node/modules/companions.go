package modules

import (
	"slices"

	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/kmod/kbuild"
	"github.com/driver-container/driver-container/node/status"
)

// Companions are the kernel modules that stand beside the driver's own ones: nvidia-fs for GPUDirect Storage, gdrdrv for GDRCopy. They
// are never a reason to fail: the driver serves without them, and the status says why one is missing.
var companions = map[string]struct {
	flag    string // of driver-entrypoint, with the variable that NVIDIA's containers know
	product string // for which it is
}{
	driverinfo.NvidiaFS: {"--gds (GDS_ENABLED)", "GPUDirect Storage"},
	driverinfo.GDRDrv:   {"--gdrcopy (GDRCOPY_ENABLED)", "GDRCopy"},
}

// Wanted returns the names of the companions that a configuration asks for.
func Wanted(gds, gdrcopy bool) (names []string) {
	if gds {
		names = append(names, driverinfo.NvidiaFS)
	}
	if gdrcopy {
		names = append(names, driverinfo.GDRDrv)
	}
	return names
}

// Split returns the modules of the driver itself, and the companions.
func Split(modules []status.Module) (driver, beside []status.Module) {
	for _, m := range modules {
		if m.Companion() {
			beside = append(beside, m)
		} else {
			driver = append(driver, m)
		}
	}
	return driver, beside
}

// Companions returns those of the named companions that the image has and that can be compiled against
// the driver's modules of a flavour, in the order in which they are compiled.
func Companions(info driverinfo.Description, flavour string, names []string) (all []kbuild.Companion) {
	for _, name := range driverinfo.Companions() {
		if c, ok := info.Companion(name); ok && slices.Contains(names, name) && c.Fits(flavour) {
			all = append(all, kbuild.Companion{Name: c.Name, Version: c.Version, Digest: c.Digest, Source: c.Sources})
		}
	}
	return all
}

// Covers reports whether a set of modules was compiled with these companions; it may have more.
func Covers(k kbuild.Key, companions []kbuild.Companion) bool {
	return !slices.ContainsFunc(companions, func(c kbuild.Companion) bool { return !slices.Contains(k.Companions, c.ID()) })
}
