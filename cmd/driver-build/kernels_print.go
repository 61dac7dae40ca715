package main

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
)

// printKernels writes the table or the JSON; a column that nobody asked for is left out of the table.
func (a *app) printKernels(rows []kernelRow, o kernelsOptions) error {
	if o.format == "json" {
		return a.printJSON(append([]kernelRow{}, rows...))
	}
	columns := []string{"OS", "ARCH", "KERNEL", "FLAVOUR", "DEFAULT", "VERSION", "DATE", "DRIVERS", "IMAGES"}
	shown := func(c string) bool {
		return c != "DATE" && c != "IMAGES" || c == "DATE" && o.dates || c == "IMAGES" && o.repository != ""
	}
	w := tabwriter.NewWriter(a.stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, strings.Join(slices.DeleteFunc(slices.Clone(columns), func(c string) bool { return !shown(c) }), "\t"))
	for _, r := range rows {
		cells := map[string]string{
			"OS": r.System, "ARCH": r.Arch, "KERNEL": r.Kernel, "FLAVOUR": r.Flavour, "VERSION": r.Version, "DATE": r.Date,
			"DRIVERS": strings.Join(r.Drivers, ","), "IMAGES": strings.Join(r.Images, ","),
		}
		if r.Default {
			cells["DEFAULT"] = "yes"
		}
		if r.Images == nil {
			cells["IMAGES"] = "unknown"
		}
		var line []string
		for _, c := range columns {
			if shown(c) {
				line = append(line, dash(cells[c]))
			}
		}
		fmt.Fprintln(w, strings.Join(line, "\t"))
	}
	return w.Flush()
}

// dash stands for an empty cell, so that columns can be told apart by programs too.
func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
