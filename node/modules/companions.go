package modules

import (
	"slices"

	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/kmod/kbuild"
)

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
