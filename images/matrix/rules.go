package matrix

import (
	"fmt"
	"slices"

	"github.com/driver-container/driver-container/distros/driverinfo"
)

// FirstOpen is the first branch with open kernel modules: 515.43.04 of May 2022 brought the
// kernel-open tree.
const FirstOpen = 515

// LastProprietary is the last branch with proprietary kernel modules: NVIDIA's Driver Installation
// Guide, release 615, says that they have been removed.
const LastProprietary = 614

// flavoursOf are the flavours that a branch has.
func flavoursOf(branch int) (flavours []string) {
	if branch <= LastProprietary {
		flavours = append(flavours, Proprietary)
	}
	if branch >= FirstOpen {
		flavours = append(flavours, Open)
	}
	return flavours
}

// broken returns the rules that forbid a target, with their reasons. Those that can be overridden
// are judgements: the value of a kernel limit, an entry of exclude. The others are plain facts:
// there is nothing to build from.
func (m *Matrix) broken(t Target) (rules []*IncompatibleError) {
	system := t.System.ID
	version := t.Driver.Version
	kernels := t.System.Kernels
	limit := t.Driver.Kernel
	forbid := func(rule string, overridable bool, format string, args ...any) {
		rules = append(rules, &IncompatibleError{
			System: system, Driver: version, Arch: t.Arch, Rule: rule, Reason: fmt.Sprintf(format, args...), Overridable: overridable,
		})
	}
	if !slices.Contains(t.System.Archs, t.Arch) {
		forbid("arch-not-offered", false, "%s is not made for %s", system, t.Arch)
	}
	_, archive := t.Driver.Archives[t.Arch]
	if _, _, packages := t.Driver.Debian.Wants(system, t.Arch); !archive && !packages {
		forbid("no-archive", false, "driver %s has neither an archive for %s nor Debian packages for it on %s", version, t.Arch, system)
	}
	early := Major(version) < FirstOpen
	for _, f := range t.Flavours {
		// the last rule gives the better reason
		if !slices.Contains(t.Driver.Flavours, f) && (f != Open || !early) {
			forbid("flavour-not-offered", false, "driver %s does not list the flavour %s", version, f)
			break
		}
	}
	if len(kernels) > 0 && limit.Max != "" && driverinfo.CompareKernels(kernels[0], limit.Max) > 0 {
		forbid("kernel-too-new", true, "the lowest kernel of %s is %s, driver %s builds up to %s: %s",
			system, kernels[0], version, limit.Max, limit.Reason)
	}
	if n := len(kernels); n > 0 && limit.Min != "" && driverinfo.CompareKernels(kernels[n-1], limit.Min) < 0 {
		forbid("kernel-too-old", true, "the highest kernel of %s is %s, driver %s needs %s", system, kernels[n-1], version, limit.Min)
	}
	if slices.Contains(t.Flavours, Open) && early {
		forbid("open-flavour-before-515", true, "driver %s has no open kernel modules: they came with %d", version, FirstOpen)
	}
	for _, x := range m.Exclude {
		if (x.System == "" || x.System == system) && matches(x.Driver, version) && (x.Arch == "" || x.Arch == t.Arch) {
			forbid("excluded", true, "%s", x.Reason)
			break
		}
	}
	return rules
}
