package main

import "github.com/driver-container/driver-container/images/matrix"

// known is something that a compile does not show, or that a limit does not say.
type known struct {
	driver  string
	flavour string // "": both
	series  string // of the kernel: "5.10"
	text    string
}

// refused are modules that compile and that the kernel does not load. Only what a test has seen.
var refused = []known{
	{driver: "418.226.00", series: "5.10", text: "the kernel refuses nvidia-uvm: radix_tree_preloads is no longer for modules that stand on a " +
		"proprietary one (seen by Test10LoadsInPart of ci/lab/scenarios)"},
}

// What is wrong with the open modules: stable series got another pci_resize_resource in their middle. Releases are those of Debian's
// archive whose headers were looked at; between them the series changed.
const (
	resize61 = "a limit is for all flavours and a whole series. This is the open one on later releases: pci_resize_resource, which the " +
		"proprietary one does not call, has three arguments in 6.1.176 (6.1.0-50) and four in 6.1.187 (6.1.0-53)"
	resize612 = "as on 6.1: three arguments in 6.12.94, four in 6.12.107"
)

// reasons say why the matrix does not say what the compiler says.
var reasons = []known{
	{driver: "535.261.03", flavour: matrix.Open, series: "6.1", text: resize61},
	{driver: "550.163.01", flavour: matrix.Open, series: "6.1", text: resize61},
	{driver: "535.261.03", flavour: matrix.Open, series: "6.12", text: resize612},
	{driver: "550.163.01", flavour: matrix.Open, series: "6.12", text: resize612},
	{driver: "418.226.00", series: "5.10", text: "kernel.max is where the compiler ends, and the kernel refuses nvidia-uvm from 5.9 on only: a node may have an older kernel than " +
		"the system of its image. On 5.10 a start ends with exit code 13 and names the symbol"},
}

// find is the text for a cell, "" when there is none.
func find(table []known, c *cell) string {
	for _, k := range table {
		if k.driver == c.Driver.version && k.series == c.series() && (k.flavour == "" || k.flavour == c.Flavour) {
			return k.text
		}
	}
	return ""
}
