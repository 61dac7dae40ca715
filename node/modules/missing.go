package modules

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/kmod/kbuild"
	"github.com/driver-container/driver-container/node/status"
)

// missing says why the set has no companion of that name, or cannot have one, and what to do; "" if
// it has it, or is not there yet.
func (g Group) missing(name string) (reason, fix string) {
	c, known := g.Info.Companion(name)
	off := "or leave " + companions[name].flag + " off"
	switch {
	case !known:
		return "the image has no " + name, fmt.Sprintf(
			"use an image with it (driver-build --companions %s), %s",
			name,
			off,
		)
	case !c.Fits(g.Flavour):
		return fmt.Sprintf(
				"%s %s is for the %s kernel modules, and not for the %s ones",
				name,
				c.Version,
				strings.Join(c.Flavours, " and "),
				g.Flavour,
			),
			fmt.Sprintf("set KERNEL_MODULE_TYPE=%s, %s", strings.Join(c.Flavours, " or "), off)
	case g.Set == nil:
		return "", ""
	}
	if _, ok := g.Set.File(name); ok {
		return "", ""
	}
	why := cmp.Or(g.Set.OmittedReason(name), "they were made without it")
	return fmt.Sprintf(
			"the modules for kernel %s have no %s %s: %s",
			g.Set.Key.Release,
			name,
			c.Version,
			why,
		),
		fmt.Sprintf("use an image whose %s compiles for this kernel, %s", name, off)
}

// Check finds out, before anything is loaded, which of the wanted companions will be missing or of
// no use with this kernel, and why. The fix is "" if all is well.
func (g Group) Check(kernel string) (text, fix string) {
	var fine, texts, fixes []string
	for _, name := range g.Wanted {
		c, _ := g.Info.Companion(name)
		reason, fix := g.missing(name)
		if reason == "" && name == driverinfo.NvidiaFS && g.Flavour == driverinfo.Proprietary {
			reason, fix = closed(c, kernel)
		}
		switch {
		case reason != "":
			texts = append(
				texts,
				fmt.Sprintf("%s will be missing: %s", companions[name].product, reason),
			)
			fixes = append(fixes, strings.ToUpper(fix[:1])+fix[1:]+".")
		case g.Set == nil:
			fine = append(
				fine,
				fmt.Sprintf("%s %s will be compiled if it is not in the cache", name, c.Version),
			)
		default:
			fine = append(fine, name+" "+c.Version)
		}
	}
	return strings.Join(slices.Concat(texts, fine), "; "), strings.Join(fixes, " ")
}

const (
	// firstOpen is the first nvidia-fs that NVIDIA supports with the open kernel modules only. Older
	// ones find the driver with symbol_get.
	firstOpen = "2.17.5"
	// firstGPLOnly is the first kernel that refuses that for modules which do not offer their symbols
	// to GPL modules alone (commit 9011e49d54dc, which stable series have, too).
	firstGPLOnly = "6.6"
)

// closed returns why nvidia-fs does not work with the closed kernel modules; "" if it may.
func closed(c driverinfo.Companion, release string) (reason, fix string) {
	fix = fmt.Sprintf(
		"set KERNEL_MODULE_TYPE=open with nvidia-fs 2.17.5 or newer, or leave %s off",
		companions[c.Name].flag,
	)
	switch {
	case distros.CompareReleases(c.Version, firstOpen) >= 0:
		return fmt.Sprintf(
			"nvidia-fs %s needs the open kernel modules (from 2.17.5 on), and the proprietary ones will be loaded",
			c.Version,
		), fix
	case distros.CompareReleases(release, firstGPLOnly) >= 0:
		return fmt.Sprintf(
			"nvidia-fs %s finds the driver with symbol_get, which kernel %s refuses with the proprietary kernel modules: it loads, and no program can open its devices",
			c.Version,
			release,
		), fix
	}
	return "", ""
}

// Look compares the kernel with the states that Load or an earlier Look returned, and changes
// nothing. again says that another Load may succeed: a module that has to be replaced is not in use
// any more, or that of another program is gone. A module that the kernel refused would be refused
// again.
func (g Group) Look(
	modules []status.Module,
	before []status.Companion,
) (states []status.Companion, again bool) {
	for _, old := range before {
		now := status.Companion{Name: old.Name}
		live := g.describe(&now, modules)
		switch {
		case now.Loaded == old.Loaded && now.SrcVersion == old.SrcVersion && now.Foreign == old.Foreign:
			now.Reason = old.Reason
			now.InUse = old.InUse
			free := now.InUse && live.Refs == 0
			again = again || free
		case now.Foreign:
			now.Reason = loadedBy(live)
		case now.Loaded:
		case old.Foreign:
			now.Reason = "the other program that had loaded it has unloaded it"
			again = true
		default:
			now.Reason = "another program has unloaded it; delete this pod to load it again"
		}
		states = append(states, now)
	}
	return states, again
}

// Unusable returns what the kernel's log says about programs that could not open a device of
// nvidia-fs; "" if it says nothing. nvidia-fs before 2.17.5 finds the driver's functions only then.
func Unusable(log []string) string {
	refused := func(line string) bool {
		return strings.Contains(line, "failing symbol_get of non-GPLONLY symbol nvidia_p2p_")
	}
	if !slices.ContainsFunc(log, refused) {
		return ""
	}
	return "a program could not open /dev/nvidia-fs*: this kernel refuses nvidia-fs before 2.17.5 the functions of the proprietary kernel modules; " +
		"use the open ones (KERNEL_MODULE_TYPE=open) with nvidia-fs 2.17.5 or newer"
}

// Companions are the kernel modules that stand beside the driver's own ones: nvidia-fs for
// GPUDirect Storage, gdrdrv for GDRCopy. They are never a reason to fail: the driver serves without
// them, and the status says why one is missing.
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

// Companions returns those of the named companions that the image has and that can be compiled
// against the driver's modules of a flavour, in the order in which they are compiled.
func Companions(
	info driverinfo.Description,
	flavour string,
	names []string,
) (all []kbuild.Companion) {
	for _, name := range driverinfo.Companions() {
		if c, ok := info.Companion(name); ok && slices.Contains(names, name) && c.Fits(flavour) {
			all = append(
				all,
				kbuild.Companion{
					Name:    c.Name,
					Version: c.Version,
					Digest:  c.Digest,
					Source:  c.Sources,
				},
			)
		}
	}
	return all
}

// Covers reports whether a set of modules was compiled with these companions; it may have more.
func Covers(k kbuild.Key, companions []kbuild.Companion) bool {
	return !slices.ContainsFunc(
		companions,
		func(c kbuild.Companion) bool { return !slices.Contains(k.Companions, c.ID()) },
	)
}
