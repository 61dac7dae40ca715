package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/driver-container/driver-container/images/fleet"
	"github.com/driver-container/driver-container/images/survey"
)

// printFleet prints what people want to know: which nodes get what, who gets nothing and why, and the commands
// that build what is missing.
func printFleet(out io.Writer, p *fleet.Plan, tasks []survey.Task) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	if len(p.Images) > 0 {
		fmt.Fprintln(w, "IMAGE\tARCH\tGPU\tKERNEL\tCUDA\tNODES\tREGISTRY\tRUNNING\tPOOLS")
	}
	for i := range p.Images {
		im := &p.Images[i]
		var pools, running []string
		for _, pool := range p.Pools {
			if pool.Tag == im.Tag {
				pools, running = append(pools, pool.Name), append(running, pool.Running...)
			}
		}
		slices.Sort(running)
		fmt.Fprintln(w, strings.Join([]string{
			im.Tag, strings.Join(im.Archs, ","), some(im.GPUs, 2), some(im.Kernels, 1), cmp.Or(im.RunsCUDA, im.CUDA), some(im.Nodes, 3),
			registryState(im), cmp.Or(strings.Join(slices.Compact(running), ","), "-"), cmp.Or(strings.Join(pools, ","), "-"),
		}, "\t"))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, hint := range p.Hints {
		fmt.Fprintf(out, "hint: %s: %s\n", some(hint.Nodes, 3), hint.Text)
	}
	for _, without := range p.Without {
		fmt.Fprintf(out, "no driver: %s: %s\n", some(without.Nodes, 3), reasonOf(without))
	}
	return printCommands(out, tasks)
}

// registryState says whether the registry has an image.
func registryState(im *fleet.Image) string {
	switch {
	case len(im.Missing) > 0 && len(im.Missing) < len(im.Archs):
		return "lacks " + strings.Join(im.Missing, ",")
	case len(im.Missing) > 0:
		return "missing"
	case im.Asked:
		return "present"
	}
	return "-"
}

// printCommands prints how to build what is missing.
func printCommands(out io.Writer, tasks []survey.Task) (err error) {
	const most = 10
	if len(tasks) > 0 {
		_, err = fmt.Fprintln(out, "\nTo build:")
	}
	for i, t := range tasks {
		if i == most {
			_, err = fmt.Fprintf(out, "  ... and %d more: --format json, github or gitlab\n", len(tasks)-most)
			return err
		}
		push := ""
		if strings.Contains(t.Args, "--repository") {
			push = " --push"
		}
		_, err = fmt.Fprintf(out, "  driver-build %s%s\n", t.Args, push)
	}
	return err
}

// reasonOf says why nodes get nothing, and what runs there now.
func reasonOf(w fleet.Without) string {
	if len(w.Running) > 0 {
		return fmt.Sprintf("%s (driver %s runs there)", w.Reason, strings.Join(w.Running, ", "))
	}
	return w.Reason
}

// some names the first of some things and counts the others.
func some(names []string, most int) string {
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}
