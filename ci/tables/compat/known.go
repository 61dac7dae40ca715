package main

// known is a fact that a compile does not show.
type known struct {
	driver string
	series string // of the kernel: "5.10"
	text   string
}

// refused lists modules that compile and that the kernel then refuses to load, as far as a test has seen it.
var refused = []known{
	{driver: "418.226.00", series: "5.10", text: "the kernel refuses nvidia-uvm: modules that depend on a proprietary one may no " +
		"longer use radix_tree_preloads (seen by Test10LoadsInPart of ci/lab/scenarios)"},
}

// refusal returns the text for a cell, "" if the kernel is not known to refuse anything.
func refusal(c *cell) string {
	for _, k := range refused {
		if k.driver == c.Driver.version && k.series == c.series() {
			return k.text
		}
	}
	return ""
}
