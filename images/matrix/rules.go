package matrix

import (
	"fmt"
	"slices"

	"github.com/driver-container/driver-container/distros/driverinfo"
)

// firstOpen is the first branch with open kernel modules: 515.43.04 of May 2022 brought the kernel-open tree.
const firstOpen = 515

// rule is one reason why a pair cannot work.
type rule struct {
	name        string
	overridable bool // by AllowIncompatible: a person may know better than the table
	check       func(m *Matrix, t Target) (reason string)
}

// rules returns all rules, in the order in which they are checked. An empty reason means that the pair
// passes. The rules that can be overridden are judgements (the value of a kernel limit, an entry of exclude).
// The others are plain facts: there is nothing to build from.
func rules() []rule {
	return []rule{
		{name: "arch-not-offered", check: archNotOffered},
		{name: "no-archive", check: noArchive},
		{name: "flavour-not-offered", check: flavourNotOffered},
		{name: "kernel-too-new", overridable: true, check: kernelTooNew},
		{name: "kernel-too-old", overridable: true, check: kernelTooOld},
		{name: "open-flavour-before-515", overridable: true, check: openBefore515},
		{name: "excluded", overridable: true, check: excluded},
	}
}

func archNotOffered(_ *Matrix, t Target) string {
	if slices.Contains(t.System.Archs, t.Arch) {
		return ""
	}
	return fmt.Sprintf("%s is not made for %s", t.System.ID, t.Arch)
}

func noArchive(_ *Matrix, t Target) string {
	if _, ok := t.Driver.Archives[t.Arch]; ok {
		return ""
	}
	if _, _, ok := t.Driver.Debian.Wants(t.System.ID, t.Arch); ok {
		return ""
	}
	return fmt.Sprintf("driver %s has neither an archive for %s nor Debian packages for it on %s",
		t.Driver.Version, t.Arch, t.System.ID)
}

// flavourNotOffered leaves the open flavour of old drivers to openBefore515, which gives the better reason.
func flavourNotOffered(_ *Matrix, t Target) string {
	for _, f := range t.Flavours {
		if slices.Contains(t.Driver.Flavours, f) || f == Open && major(t.Driver.Version) < firstOpen {
			continue
		}
		return fmt.Sprintf("driver %s does not list the flavour %s", t.Driver.Version, f)
	}
	return ""
}

func kernelTooNew(_ *Matrix, t Target) string {
	limit := t.Driver.Kernel
	if len(t.System.Kernels) == 0 || limit.Max == "" || driverinfo.CompareKernels(t.System.Kernels[0], limit.Max) <= 0 {
		return ""
	}
	return fmt.Sprintf("the lowest kernel of %s is %s, driver %s builds up to %s: %s",
		t.System.ID, t.System.Kernels[0], t.Driver.Version, limit.Max, limit.Reason)
}

func kernelTooOld(_ *Matrix, t Target) string {
	n, limit := len(t.System.Kernels), t.Driver.Kernel
	if n == 0 || limit.Min == "" || driverinfo.CompareKernels(t.System.Kernels[n-1], limit.Min) >= 0 {
		return ""
	}
	return fmt.Sprintf("the highest kernel of %s is %s, driver %s needs %s",
		t.System.ID, t.System.Kernels[n-1], t.Driver.Version, limit.Min)
}

func openBefore515(_ *Matrix, t Target) string {
	if !slices.Contains(t.Flavours, Open) || major(t.Driver.Version) >= firstOpen {
		return ""
	}
	return fmt.Sprintf("driver %s has no open kernel modules: they came with %d", t.Driver.Version, firstOpen)
}

func excluded(m *Matrix, t Target) string {
	for _, x := range m.Exclude {
		if (x.System == "" || x.System == t.System.ID) && matches(x.Driver, t.Driver.Version) &&
			(x.Arch == "" || x.Arch == t.Arch) {
			return x.Reason
		}
	}
	return ""
}
