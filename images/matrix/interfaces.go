package matrix

import (
	"slices"

	"go.yaml.in/yaml/v4"

	"github.com/driver-container/driver-container/distros/driverinfo"
)

// Interface is a change of an interface of the kernel, and the drivers whose modules use it as it was. It is
// the same break for all of them: each gets it among its KernelRule.Broken.
type Interface struct {
	Name     string            // of the function: "pci_resize_resource"
	Kernels  []driverinfo.Span // that have it in its new form
	Drivers  []driverinfo.Span // versions of the driver that call it in the old form, whatever the kernel
	Flavours []string          // of the modules that do; empty: all
	Reason   string            // what happens there
	Source   string            // who says so
}

// Calls reports whether a version of the driver calls the interface in its old form.
func (c Interface) Calls(version string) bool {
	return slices.ContainsFunc(c.Drivers, func(s driverinfo.Span) bool {
		return CompareVersions(version, s.From) >= 0 && (s.Below == "" || CompareVersions(version, s.Below) < 0)
	})
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

// interfaces reads the list. It comes before the drivers, wherever the file has it.
func (d *decoder) interfaces(root *yaml.Node) (all []Interface) {
	for i := 0; root.Kind == yaml.MappingNode && i+1 < len(root.Content); i += 2 {
		if root.Content[i].Value != "interfaces" {
			continue
		}
		d.list("interfaces", func(n *yaml.Node) {
			var c Interface
			d.mapping(n, "an interface",
				key{name: "name", required: true, read: d.text("name", &c.Name)},
				key{name: "kernels", required: true, read: d.list("kernels", func(n *yaml.Node) { d.span(&c.Kernels, n, "kernels", kernelSeries) })},
				key{name: "drivers", required: true, read: d.list("drivers", func(n *yaml.Node) { d.span(&c.Drivers, n, "drivers", driverRange) })},
				key{name: "flavours", read: d.texts("flavours", &c.Flavours, oneOf(knownFlavours))},
				key{name: "reason", required: true, read: d.text("reason", &c.Reason)},
				key{name: "source", required: true, read: d.text("source", &c.Source)},
			)
			if slices.ContainsFunc(all, func(other Interface) bool { return other.Name == c.Name }) {
				d.errorf(n, "interface %s appears twice", quoted(c.Name))
			}
			all = append(all, c)
		})(root.Content[i+1])
	}
	return all
}

// span reads a range of kernels or drivers.
func (d *decoder) span(to *[]driverinfo.Span, n *yaml.Node, of string, form check) (ok bool) {
	var s driverinfo.Span
	d.mapping(n, "a range of "+of,
		key{name: "from", required: true, read: d.text("from", &s.From, form)},
		key{name: "below", read: d.text("below", &s.Below, form)},
	)
	if s.From == "" {
		return false // reported already
	}
	if s.Below != "" && CompareVersions(s.From, s.Below) >= 0 {
		d.errorf(n, "a range of %s begins at %s, which is not below %s", of, s.From, s.Below)
		return false
	}
	*to = append(*to, s)
	return true
}

// breakInterfaces adds the interfaces that changed to what breaks a driver.
func (d *decoder) breakInterfaces(to *Driver, n *yaml.Node) {
	for _, c := range d.changed {
		for _, b := range c.breaks(to) {
			if slices.ContainsFunc(to.Kernel.Broken, func(own driverinfo.Broken) bool { return overlap(own, b) }) {
				d.errorf(n, "driver %s says in kernel.broken what interface %s says of kernels %s: remove one", to.Version, quoted(c.Name), b.Range())
				continue
			}
			to.Kernel.Broken = append(to.Kernel.Broken, b)
		}
	}
}
