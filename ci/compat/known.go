package main

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

// reasons say why the matrix does not say what the compiler says.
var reasons = []known{
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
