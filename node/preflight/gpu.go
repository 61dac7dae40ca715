package preflight

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/node/devices"
)

func checkPresent(in *Input) Check {
	if len(in.GPUs) == 0 {
		return block(
			"Run the driver on nodes with a GPU only: node selector feature.node.kubernetes.io/pci-10de.present=true. In a virtual machine, pass the GPU through.",
			"there is no display device of NVIDIA (10de, class 0300 or 0302) on the PCI bus",
		)
	}
	var names []string
	for _, g := range in.GPUs {
		names = append(names, in.Supported.label(g))
	}
	return ok("%s", strings.Join(names, ", "))
}

// checkBound checks which drivers the GPUs are bound to. The entrypoint itself can unload only
// nouveau. A GPU that is lent prevents the start only if no other is left: the driver loads only if
// it finds a GPU.
func checkBound(in *Input) Check {
	var taken, lent, unloads, fixes []string
	for _, g := range in.GPUs {
		fix := in.unbind(g)
		switch {
		case fix == "" && g.Driver == "nouveau":
			unloads = append(unloads, in.Supported.label(g))
			continue
		case fix == "":
			continue
		case g.Lent():
			lent = append(
				lent,
				fmt.Sprintf(
					"%s is lent to %s",
					in.Supported.label(g),
					cmp.Or(g.Driver, g.Override),
				),
			)
		default:
			taken = append(taken, fmt.Sprintf("%s is bound to %s", in.Supported.label(g), g.Driver))
		}
		if !slices.Contains(fixes, fix) {
			fixes = append(fixes, fix)
		}
	}
	finding := strings.Join(append(taken, lent...), ", ")
	fix := strings.Join(fixes, " ")
	switch {
	case len(in.GPUs) == 0:
		return skip("no GPU")
	case len(lent) == len(in.GPUs) && in.Stays:
		return ok("%s; the loaded driver stays, without a GPU", finding)
	case len(taken)+len(lent) == len(in.GPUs):
		return block(fix, "%s", finding)
	case len(taken) > 0:
		return warn(fix, "%s; the driver takes the other GPUs only", finding)
	case len(unloads) > 0:
		return warn(
			"Keep nouveau from loading at boot: blacklist it on the host and make the initramfs anew.",
			"nouveau is bound to %s and unused: it will be unloaded",
			strings.Join(unloads, ", "),
		)
	case len(lent) > 0:
		return ok("%s; the driver takes the other GPUs", finding)
	default:
		return ok("no GPU is bound to another driver")
	}
}

// unbind says how to take a GPU from the driver that it is bound to; "" when the GPU is free or
// will be.
func (in *Input) unbind(g devices.GPU) string {
	write := fmt.Sprintf("echo %s > /sys/bus/pci/drivers/%s/unbind", g.Address, g.Driver)
	switch g.Driver {
	case "", "nvidia":
		if g.Lent() {
			return fmt.Sprintf(
				"Give the GPU back (echo > /sys/bus/pci/devices/%s/driver_override), or keep the driver off this node: it is set up for pass-through.",
				g.Address,
			)
		}
		return ""
	case "nouveau":
		m, _ := in.module("nouveau")
		if in.UnloadNouveau && m.Refs == 0 {
			return ""
		}
		if m.Refs == 0 {
			return "Let the entrypoint unload nouveau: set --unload-nouveau. To keep it away, blacklist it on the host (/etc/modprobe.d: blacklist nouveau, options nouveau modeset=0) and make the initramfs anew."
		}
		return "Nouveau is in use by a console or a display: blacklist it on the host (/etc/modprobe.d: blacklist nouveau, options nouveau modeset=0), make the initramfs anew and reboot."
	case "nova_core", "nova-core", "NovaCore":
		return "Blacklist nova_core and nova_drm on the host (/etc/modprobe.d), make the initramfs anew and reboot."
	case "vfio-pci":
		return fmt.Sprintf(
			"Stop the virtual machine that has the GPU and give it back (%s), or keep the driver off this node: it is set up for pass-through.",
			write,
		)
	case "pci-stub":
		return fmt.Sprintf(
			"Give the GPU back (%s) and remove it from pci-stub.ids on the kernel command line.",
			write,
		)
	case "nvidiafb", "rivafb":
		return fmt.Sprintf(
			"Blacklist %s on the host (/etc/modprobe.d), make the initramfs anew and reboot.",
			g.Driver,
		)
	default:
		return fmt.Sprintf(
			"Take the GPU from that driver (%s) and blacklist it on the host.",
			write,
		)
	}
}

// checkSupported finds GPUs that only an older branch drives: they do not come up with this driver.
// A GPU that is not in the list is not refused, because NVIDIA's lists lack GPUs that the driver
// supports. It is worth a warning only if the list does not have its chip either: the chip may be
// newer than the driver.
func checkSupported(in *Input) Check {
	if in.SupportedErr != nil {
		return skip("cannot tell which GPUs driver %s supports: %v", in.Info.Driver, in.SupportedErr)
	}
	gpus := devices.Ours(in.GPUs)
	if len(gpus) == 0 || in.Supported.Len() == 0 {
		return skip("no GPU, or no list of GPUs")
	}
	var legacy, unknown, unlisted, branches []string
	for _, g := range gpus {
		c, known := in.Supported.Lookup(g)
		switch n := driverinfo.Branch(c.Legacy); {
		case !known && in.Supported.Drives(g):
			unlisted = append(unlisted, in.Supported.label(g))
		case !known:
			unknown = append(unknown, in.Supported.label(g))
		case n != 0 && n < driverinfo.Branch(in.Info.Driver):
			legacy = append(legacy, in.Supported.label(g))
			branches = append(branches, strconv.Itoa(n))
		}
	}
	slices.Sort(branches)
	which := strings.Join(slices.Compact(branches), " or ")
	switch {
	case len(legacy) == len(gpus):
		return block(fmt.Sprintf("Use an image with a driver of branch %s.", which),
			"driver %s no longer supports %s: the last branch that does is %s", in.Info.Driver, strings.Join(legacy, ", "), which)
	case len(legacy) > 0:
		const otherwise = "If not, set --gpu-init=warn: with require the node is not ready while a GPU does not come up."
		return warn(fmt.Sprintf("Use an image with a driver of branch %s if those GPUs are needed. %s", which, otherwise),
			"driver %s no longer supports %s, which will not come up: the last branch that does is %s", in.Info.Driver, strings.Join(legacy, ", "), which)
	case len(unknown) > 0:
		return warn("If it does not come up, use a newer driver; the driver's list is known to lack GPUs that it supports.",
			"driver %s lists neither %s nor another GPU of that chip", in.Info.Driver, strings.Join(unknown, ", "))
	case len(unlisted) > 0:
		return ok("driver %s supports every GPU: its list lacks %s, but has other GPUs of that chip", in.Info.Driver, strings.Join(unlisted, ", "))
	default:
		return ok("driver %s supports every GPU", in.Info.Driver)
	}
}
