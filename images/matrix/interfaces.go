package matrix

import (
	"slices"

	"go.yaml.in/yaml/v4"

	"github.com/driver-container/driver-container/distros/driverinfo"
)

// Interface is a change of an interface of the kernel, and the drivers whose modules use it as it was. It is
// the same break for all of them: each gets it among its KernelRule.Broken.
type Interface struct {
	Name     string            `m:"name!"`                 // of the function: "pci_resize_resource"
	Kernels  []driverinfo.Span `m:"kernels!" of:"kernel"`  // that have it in its new form
	Drivers  []driverinfo.Span `m:"drivers!" of:"range"`   // versions of the driver that call it in the old form, whatever the kernel
	Flavours []string          `m:"flavours" of:"flavour"` // of the modules that do; empty: all
	Reason   string            `m:"reason!"`               // what happens there
	Source   string            `m:"source!"`               // who says so
}

// Calls reports whether a version of the driver calls the interface in its old form.
func (c Interface) Calls(version string) bool {
	return slices.ContainsFunc(c.Drivers, func(s driverinfo.Span) bool { return inRange(version, s.From, s.Below) })
}

// breaks returns the ranges of kernels on which a driver's modules do not compile; nil if it is not concerned.
func (c Interface) breaks(d *Driver) (all []driverinfo.Broken) {
	flavours := inOrder(d.Flavours, c.Flavours)
	if !c.Calls(d.Version) || len(c.Flavours) > 0 && len(flavours) == 0 {
		return nil
	}
	for _, k := range c.Kernels {
		all = append(all, driverinfo.Broken{From: k.From, Below: k.Below, Flavours: flavours, Reason: c.Reason})
	}
	return all
}

// breakInterfaces adds the interfaces that changed to what breaks a driver.
func (d *decoder) breakInterfaces(to *Driver, n *yaml.Node) {
	for _, c := range d.m.Interfaces {
		for _, b := range c.breaks(to) {
			if slices.ContainsFunc(to.Kernel.Broken, func(own driverinfo.Broken) bool { return overlap(own, b) }) {
				d.errorf(n, "driver %s says in kernel.broken what interface %s says of kernels %s: remove one", to.Version, quoted(c.Name), b.Range())
				continue
			}
			to.Kernel.Broken = append(to.Kernel.Broken, b)
		}
	}
}
