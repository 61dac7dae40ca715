package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
)

// printDrivers prints branches, or the releases of those that were named.
func (a *app) printDrivers(rows []branchRow, o driversOptions) error {
	if o.format == "json" {
		return a.printJSON(append([]branchRow{}, rows...))
	}
	if len(o.branches) > 0 {
		return a.printReleases(rows)
	}
	if len(rows) == 0 { // --lagging, and nothing lags: nothing to say
		return nil
	}
	w := tabwriter.NewWriter(a.stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "BRANCH\tKIND\tEND OF LIFE\tNEWEST\tRELEASED\tCUDA\tKERNELS\tMATRIX\tNOTE")
	for _, r := range rows {
		have := "-"
		if n := len(r.Matrix); n > 0 {
			have = strings.Join(r.Matrix, " ")
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.Branch, cmp.Or(r.Kind, "-"), r.end(), cmp.Or(r.Newest, "-"),
			cmp.Or(r.Date, "-"), cmp.Or(r.CUDA, "-"), from(r.Kernel), have, r.note())
	}
	return w.Flush()
}

// note is the advice of a row.
func (r branchRow) note() string {
	switch {
	case r.Lags:
		return "lags behind: " + r.Newest + " is out"
	case len(r.Matrix) > 0 && r.Over:
		return "has the last release"
	}
	return ""
}

func (a *app) printReleases(rows []branchRow) error {
	w := tabwriter.NewWriter(a.stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "VERSION\tRELEASED\tKERNELS\tARCHIVES\tSHA256\tMATRIX")
	for _, b := range rows {
		for _, r := range slices.Backward(b.Releases) {
			in := "-"
			if r.InMatrix {
				in = "yes"
			}
			kernels := "-"
			if r.Kernel != "" {
				kernels = "up to " + r.Kernel
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", r.Version, cmp.Or(r.Date, "-"), kernels,
				cmp.Or(strings.Join(r.Archs, " "), "-"), cmp.Or(strings.Join(r.Checked, " "), "-"), in)
		}
	}
	return w.Flush()
}

func from(kernel string) string {
	if kernel == "" {
		return "-"
	}
	return "from " + kernel
}
