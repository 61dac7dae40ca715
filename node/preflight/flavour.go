package preflight

import (
	"fmt"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/node/devices"
)

// firstOpenDefault is the first branch whose installer prefers the open modules where all GPUs
// support them.
const firstOpenDefault = 560

// noFlavour says that the image does not have the requested flavour, for a kernel or ("") at all,
// and what to request instead.
func noFlavour(requested string, have []string, kernel string) error {
	known := []string{"auto", driverinfo.Open, driverinfo.Proprietary}
	if !slices.Contains(known, requested) {
		return fmt.Errorf(
			"kernel module type %.40q is not known: use %s",
			requested,
			strings.Join(known, ", "),
		)
	}
	if kernel != "" {
		return fmt.Errorf(
			"for kernel %s the image has no %s kernel modules, only %s: ask for auto, or use an image that has them (driver-build --flavour %s --kernel %s)",
			kernel,
			requested,
			strings.Join(have, " and "),
			requested,
			kernel,
		)
	}
	return fmt.Errorf(
		"the image has no %s kernel modules, only %s: ask for auto, or use an image that was built with --flavour %s",
		requested,
		strings.Join(have, " and "),
		requested,
	)
}

// Flavour chooses the kernel modules for a kernel from those that are available for it: serves, or
// the image's flavours where that is empty. requested is "auto" (or ""), "open" or "proprietary";
// the reason is for the log. An explicit request is followed whatever the GPUs are: the check
// GPUFlavour says whether it can work.
//
// auto takes the flavour that a GPU requires. Otherwise it follows NVIDIA's installer: open modules
// from 560 on where all GPUs support them, proprietary ones before; except if only the other
// flavour works on the kernel. A GPU that is not in the list is ignored, and so is one that is
// lent.
func Flavour(
	info driverinfo.Description,
	running driverinfo.Kernel,
	serves []string,
	supported Supported,
	gpus []devices.GPU,
	requested string,
) (flavour, reason string, err error) {
	only := "the image has no other"
	have := info.Flavours
	kernel := ""
	if len(serves) > 0 && len(serves) < len(have) {
		have = serves
		kernel = running.Release
		only = "the image has no other for this kernel"
	}
	open := slices.Contains(have, driverinfo.Open)
	proprietary := slices.Contains(have, driverinfo.Proprietary)
	switch {
	case requested == driverinfo.Open && open, requested == driverinfo.Proprietary && proprietary:
		return requested, "asked for", nil
	case requested != "" && requested != "auto":
		return "", "", noFlavour(requested, have, kernel)
	case !open:
		return driverinfo.Proprietary, only, nil
	case !proprietary:
		return driverinfo.Open, only, nil
	}
	gpus = devices.Ours(gpus)
	for _, g := range gpus {
		if c, known := supported.Lookup(g); known && !c.Open {
			return driverinfo.Proprietary, "the open modules do not drive " + supported.label(
				g,
			), nil
		}
	}
	for _, g := range gpus {
		if c, known := supported.Lookup(g); needsOpen(g, c, known) {
			return driverinfo.Open, "only the open modules drive " + supported.label(g), nil
		}
	}
	flavour = driverinfo.Proprietary
	other := driverinfo.Open
	reason = fmt.Sprintf("the default of drivers before %d", firstOpenDefault)
	if driverinfo.Branch(info.Driver) >= firstOpenDefault {
		flavour = driverinfo.Open
		other = driverinfo.Proprietary
		reason = fmt.Sprintf("the default of drivers from %d on", firstOpenDefault)
	}
	if slices.Contains(info.Serves(running.Release), flavour) {
		return flavour, reason, nil // they are compiled
	}
	works := slices.Contains(info.Serves(running.Release), other) ||
		info.Breaks(running, other) == nil
	if broken := info.Breaks(running, flavour); broken != nil && works {
		return other, broken.Error(), nil
	}
	return flavour, reason, nil
}

// needsOpen says whether only the open modules drive a GPU: according to the list if it says so,
// and according to the ranges of NVIDIA's installer (the GPU halves of the Grace superchips).
func needsOpen(g devices.GPU, c Chip, known bool) bool {
	if known && c.Open && !c.Proprietary {
		return true
	}
	d := g.Device
	return d >= 0x2340 && d <= 0x237f || // Grace Hopper
		d >= 0x2940 && d <= 0x297f || d >= 0x31c0 && d <= 0x31ff || d == 0x31a1 // Grace Blackwell
}

// checkFlavour checks that the modules drive the GPUs: other modules load without an error and
// leave the GPUs out.
func checkFlavour(in *Input) Check {
	if in.Flavour == "" || len(in.GPUs) == 0 {
		return skip("no GPU or no flavour to judge")
	}
	var cannot []string
	gpus := devices.Ours(in.GPUs)
	for _, g := range gpus {
		c, known := in.Supported.Lookup(g)
		if in.Flavour == driverinfo.Open && known && !c.Open ||
			in.Flavour == driverinfo.Proprietary && needsOpen(g, c, known) {
			cannot = append(cannot, in.Supported.label(g))
		}
	}
	other := driverinfo.Open
	if in.Flavour == driverinfo.Open {
		other = driverinfo.Proprietary
	}
	switch {
	case len(cannot) == 0:
		return ok("%s modules", in.Flavour)
	case len(cannot) < len(gpus):
		return warn(
			"Keep GPUs that need different kernel modules on different nodes.",
			"the %s modules do not drive %s, which will not come up",
			in.Flavour,
			strings.Join(cannot, ", "),
		)
	case !slices.Contains(in.Info.Flavours, other):
		return block(
			fmt.Sprintf("Use an image that was built with --flavour %s.", other),
			"the %s modules do not drive %s, and the image has no others",
			in.Flavour,
			strings.Join(cannot, ", "),
		)
	case len(in.Serves) > 0 && !slices.Contains(in.Serves, other):
		return block(
			fmt.Sprintf("Use an image that was built with --flavour %s for this kernel.", other),
			"the %s modules do not drive %s, and the image has no others for kernel %s",
			in.Flavour,
			strings.Join(cannot, ", "),
			in.Release,
		)
	default:
		return block(fmt.Sprintf("Set KERNEL_MODULE_TYPE=%s, or auto.", other),
			"the %s modules do not drive %s", in.Flavour, strings.Join(cannot, ", "))
	}
}

// label returns a GPU's name for people: "0000:05:00.0 (Tesla P100-PCIE-16GB, 10de:15f8)".
func (s Supported) label(g devices.GPU) string {
	name := ""
	if c, _ := s.Lookup(g); c.Name != "" {
		name = c.Name + ", "
	}
	return fmt.Sprintf("%s (%s%04x:%04x)", g.Address, name, g.Vendor, g.Device)
}
