package companions

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/kmod/kbuild"
)

// Finding is the answer of the check before a start. The check never stops a start.
type Finding struct {
	Asked     bool   // a companion is asked for
	Text, Fix string // Fix is "" if all is well
}

// Host says what a node would load.
type Host struct {
	Wanted  []string // names of companions
	Flavour string
	Release string      // of the running kernel
	Set     *kbuild.Set // existing modules; nil: they have to be compiled, or are not known
}

// Check finds out, before anything is loaded, which of the wanted companions will be missing, and why.
func Check(info driverinfo.Description, h Host) Finding {
	if len(h.Wanted) == 0 {
		return Finding{}
	}
	var fine, texts, fixes []string
	for _, name := range h.Wanted {
		text, fix := checkOne(info, h, name)
		if fix == "" {
			fine = append(fine, text)
			continue
		}
		texts = append(texts, text)
		if !slices.Contains(fixes, fix) {
			fixes = append(fixes, fix)
		}
	}
	return Finding{Asked: true, Text: strings.Join(slices.Concat(texts, fine), "; "), Fix: strings.Join(fixes, " ")}
}

func checkOne(info driverinfo.Description, h Host, name string) (text, fix string) {
	c, known := info.Companion(name)
	product := table[name].product
	if !known {
		return fmt.Sprintf("the image has no %s, so %s will be missing", name, product),
			fmt.Sprintf("Use an image with it (driver-build --companions %s), or leave %s off.", name, flagOf(name))
	}
	named := name + " " + c.Version
	other := fmt.Sprintf("Set KERNEL_MODULE_TYPE=%s, or leave %s off.", strings.Join(c.Flavours, " or "), flagOf(name))
	if !c.Fits(h.Flavour) {
		return fmt.Sprintf("%s is for the %s kernel modules, and the %s ones will be loaded: %s will be missing", named, strings.Join(c.Flavours, " and "), h.Flavour, product), other
	}
	if name == driverinfo.NvidiaFS && h.Flavour == driverinfo.Proprietary {
		if text, fix := closed(c, h.Release); fix != "" {
			return text, fix
		}
	}
	if h.Set == nil {
		return named + " will be compiled if it is not in the cache", ""
	}
	if _, ok := h.Set.File(name); ok {
		return named, ""
	}
	reason := cmp.Or(h.Set.OmittedReason(name), "they were made without it")
	return fmt.Sprintf("the modules for kernel %s have no %s, so %s will be missing: %s", h.Release, named, product, reason),
		fmt.Sprintf("Use an image whose %s compiles for this kernel, or leave %s off.", name, flagOf(name))
}

// firstOpen is the first nvidia-fs that NVIDIA supports with the open kernel modules only. Older ones find
// the driver with symbol_get, and the kernel named by firstGPLOnly is the first that refuses that for modules
// which do not offer their symbols to GPL modules alone (commit 9011e49d54dc, which stable series have, too).
var firstOpen, firstGPLOnly = []int{2, 17, 5}, []int{6, 6}

// closed returns why nvidia-fs does not work with the closed kernel modules; fix is "" if it may.
func closed(c driverinfo.Companion, release string) (text, fix string) {
	fix = fmt.Sprintf("Set KERNEL_MODULE_TYPE=open with nvidia-fs 2.17.5 or newer, or leave %s off.", flagOf(c.Name))
	major, minor, ok := driverinfo.Series(release)
	switch {
	case slices.Compare(numbers(c.Version), firstOpen) >= 0:
		return fmt.Sprintf("nvidia-fs %s needs the open kernel modules (from 2.17.5 on), and the proprietary ones will be loaded", c.Version), fix
	case ok && slices.Compare([]int{major, minor}, firstGPLOnly) >= 0:
		return fmt.Sprintf("nvidia-fs %s finds the driver with symbol_get, which kernel %s refuses with the proprietary kernel modules: it loads, and no program can open its devices", c.Version, release), fix
	}
	return "", ""
}

// numbers returns the numbers of a version: 2, 13 and 5.
func numbers(version string) (n []int) {
	for part := range strings.SplitSeq(version, ".") {
		value, err := strconv.Atoi(part)
		n = append(n, cmp.Or(value, 0))
		if err != nil {
			break
		}
	}
	return n
}
