package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/cmd/driver-build/session"
	"github.com/driver-container/driver-container/images/fleet"
	"github.com/driver-container/driver-container/images/status"
)

// printFleet prints what people want to know: which nodes get what, who gets nothing and why, and the commands
// that build what is missing.
func printFleet(a *session.App, p *fleet.Plan, tasks []status.Task) error {
	out := a.Stdout
	var rows [][]string
	for i := range p.Images {
		im := &p.Images[i]
		var pools, running []string
		for _, pool := range p.Pools {
			if pool.Tag == im.Tag {
				pools, running = append(pools, pool.Name), append(running, pool.Running...)
			}
		}
		slices.Sort(running)
		rows = append(rows, []string{
			im.Tag, strings.Join(im.Archs, ","), some(im.GPUs, 2), some(im.Kernels, 1), cmp.Or(im.RunsCUDA, im.CUDA), some(im.Nodes, 3),
			registryState(im), strings.Join(slices.Compact(running), ","), cmp.Or(strings.Join(pools, ","), "-"),
		})
	}
	if len(rows) > 0 {
		if err := a.Table([]string{"IMAGE", "ARCH", "GPU", "KERNEL", "CUDA", "NODES", "REGISTRY", "RUNNING", "POOLS"}, rows); err != nil {
			return err
		}
	}
	for _, hint := range p.Hints {
		fmt.Fprintf(out, "hint: %s: %s\n", some(hint.Nodes, 3), hint.Text)
	}
	for _, without := range p.Without {
		fmt.Fprintf(out, "no driver: %s: %s\n", some(without.Nodes, 3), reasonOf(without))
	}
	printCommands(out, tasks)
	return nil
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
func printCommands(out io.Writer, tasks []status.Task) {
	const most = 10
	if len(tasks) > 0 {
		fmt.Fprintln(out, "\nTo build:")
	}
	for _, t := range tasks[:min(most, len(tasks))] {
		push := ""
		if strings.Contains(t.Args, "--repository") {
			push = " --push"
		}
		fmt.Fprintf(out, "  driver-build %s%s\n", t.Args, push)
	}
	if len(tasks) > most {
		fmt.Fprintf(out, "  ... and %d more: --format json, github or gitlab\n", len(tasks)-most)
	}
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
