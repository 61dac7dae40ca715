package main

import "github.com/driver-container/driver-container/images/matrix"

// known is a fact that a compile does not show, or that a limit cannot express.
type known struct {
	driver  string
	flavour string // "": both
	series  string // of the kernel: "5.10"
	text    string
}

// refused lists modules that compile and that the kernel then refuses to load, as far as a test has seen it.
var refused = []known{
	{driver: "418.226.00", series: "5.10", text: "the kernel refuses nvidia-uvm: modules that depend on a proprietary one may no " +
		"longer use radix_tree_preloads (seen by Test10LoadsInPart of ci/lab/scenarios)"},
}

// Why the open modules fail: the signature of pci_resize_resource changed within these stable series, between
// the two releases named. They are the releases in Debian's archive whose headers were examined.
const (
	resize61 = "a limit covers all flavours and a whole series. Only the open flavour fails, on later releases: pci_resize_resource, which " +
		"the proprietary one does not call, has three arguments in 6.1.176 (6.1.0-50) and four in 6.1.187 (6.1.0-53)"
	resize612 = "as on 6.1: three arguments in 6.12.94, four in 6.12.107"
)

// reasons explain why the matrix and the compiler disagree.
var reasons = []known{
	{driver: "535.261.03", flavour: matrix.Open, series: "6.1", text: resize61},
	{driver: "550.163.01", flavour: matrix.Open, series: "6.1", text: resize61},
	{driver: "535.261.03", flavour: matrix.Open, series: "6.12", text: resize612},
	{driver: "550.163.01", flavour: matrix.Open, series: "6.12", text: resize612},
	{driver: "418.226.00", series: "5.10", text: "kernel.max is the last kernel on which it compiles. The kernel refuses nvidia-uvm only from 5.9 on, and a node may have an " +
		"older kernel than the system of its image. On 5.10 a start ends with exit code 13 and names the symbol"},
}

// find returns the text for a cell, "" if the table has none.
func find(table []known, c *cell) string {
	for _, k := range table {
		if k.driver == c.Driver.version && k.series == c.series() && (k.flavour == "" || k.flavour == c.Flavour) {
			return k.text
		}
	}
	return ""
}
