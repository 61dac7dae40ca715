package plancmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/driver-container/driver-container/cmd/driver-build/flags"
	"github.com/driver-container/driver-container/cmd/driver-build/session"
	"github.com/driver-container/driver-container/images/fleet"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/status"
)

const fleetLong = `Read the nodes of a cluster, as kubectl get nodes -o json prints them, and say which driver each of them gets: the images
that they need, the pools of the chart that choose them, and the nodes that get nothing, with the reason. FILE is - or missing for
standard input. It may also hold the answers of hosts without a cluster, whose format docs/fleet.md has.

A node gets the newest driver of a branch that NVIDIA supports for production, if it drives the node's GPUs and compiles on its
kernel; else the newest other one. With --repository the registry is asked which of the images it has.

--format values prints the chart's values with the pools, github and gitlab the builds of missing images as plan does. If a node
with a GPU gets no driver, they print nothing and end with exit code 7; all such nodes are on standard error, with the reason.`

// fleetFlags are the flags of the command.
type fleetFlags struct {
	request     flags.Request
	policy      flags.Policy
	cuda        flags.CUDA
	precompiled string // "", wholeImages or moduleImages
	allow       []string
	managed     bool
	flags       *pflag.FlagSet
}

// The values of --precompiled.
const (
	wholeImages  = "images"
	moduleImages = "modules"
)

// NewFleet returns the command fleet.
func NewFleet(a *session.App) *cobra.Command {
	var o fleetFlags
	s := &o.request.Targets.Selection
	cmd := &cobra.Command{
		Use: "fleet [FILE]", Short: "Say which driver each node gets: images, pools, reasons", Long: fleetLong, Args: cobra.MaximumNArgs(1),
		Example: "  kubectl get nodes -o json | driver-build fleet\n  driver-build fleet nodes.json --precompiled --repository registry.example.com/gpu/driver --format github\n" +
			"  kubectl get nodes -o json | driver-build fleet --format values > pools.yaml",
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), a, args) },
	}
	f := cmd.Flags()
	o.flags = f
	f.StringSliceVar(
		&s.Drivers,
		"driver",
		nil,
		"driver `VERSION` that may be chosen, or a branch: its newest in the matrix (repeatable; "+
			"default every one of the matrix)",
	)
	f.StringSliceVar(
		&s.Flavours,
		"flavour",
		nil,
		"`FLAVOUR` of the kernel modules: proprietary or open (repeatable; default all of the driver)",
	)
	o.request.Targets.Matrix.AddTo(f)
	o.request.Repository.AddTo(f, "look for images in")
	o.cuda.AddTo(f)
	o.policy.AddTo(f)
	session.Mode(
		f,
		&o.precompiled,
		"precompiled",
		"compile for the nodes' kernels: whole images, and a pool for each kernel, "+
			"or modules alone, beside the driver's image",
		wholeImages,
		moduleImages,
	)
	session.Rare(f, func(f *pflag.FlagSet) {
		f.BoolVar(
			&o.managed,
			"managed-drivers",
			false,
			"give a driver also to nodes whose platform says that it brings one (GKE, AKS, EKS)",
		)
	})
	f.Var(
		session.Slice(&o.allow, session.Valid(fleet.CheckReason)),
		"allow-unserved",
		"`REASON` for which nodes with a GPU may get no driver, such as kernel, or all "+
			"(repeatable): values, github, gitlab and json end well without them",
	)
	session.Format(f, &a.Format, "table", "json", "github", "gitlab", "values")
	return cmd
}

func (o *fleetFlags) run(ctx context.Context, a *session.App, args []string) error {
	m, err := o.request.Targets.Load(a)
	if err != nil {
		return err
	}
	cuda, err := o.cuda.Find(a, m)
	if err != nil {
		return err
	}
	repository, err := o.request.Repository.Find(a, m.Defaults)
	if err != nil {
		return err
	}
	selection := o.request.Targets.Selection
	beside := o.precompiled == moduleImages
	if beside && a.Format == "values" && (repository == "" || a.Offline) {
		return session.Usagef(
			"values with --precompiled=modules have the images that the registry has: give --repository, and not --offline",
		)
	}
	advisor, err := o.policy.Advisor(a)
	if err != nil {
		return err
	}
	all, err := readNodes(ctx, a, "fleet", args)
	if err != nil {
		return err
	}
	p, err := fleet.Recommend(m, all, fleet.Options{
		Drivers:     selection.Drivers,
		Flavours:    selection.Flavours,
		Precompiled: o.precompiled == wholeImages,
		Beside:      beside,
		Managed:     o.managed,
		CUDA:        cuda,
		Advisor:     advisor,
	})
	if err != nil {
		return err
	}
	a.Warnings(p.Warnings...)
	unserved := o.checkServed(a, p)
	if unserved != nil && a.Format != "json" {
		return unserved
	}
	if repository != "" && !a.Offline && (a.Format != "values" || beside) {
		err = askRegistry(ctx, a, m, p, repository)
		if err != nil {
			return err
		}
	}
	if a.Format == "values" {
		a.Warnings(p.LackingModules(repository)...)
	}
	err = o.print(a, p, repository)
	if err != nil {
		return err
	}
	return errors.Join(unserved, o.policy.Report(a, p.Targets(), true))
}

// checkServed names the nodes with a GPU that get nothing, where another program reads what is
// printed. It is an error if one gets nothing for a reason that --allow-unserved does not name.
func (o *fleetFlags) checkServed(a *session.App, p *fleet.Recommendation) error {
	if a.Format == "table" { // has them all
		return nil
	}
	for _, w := range p.Unserved() {
		fmt.Fprintf(a.Stderr, "no driver (%s): %s: %s\n", w.Code, strings.Join(w.Nodes, ", "), w.Text())
	}
	return p.CheckServed(o.allow)
}

// askRegistry finds out which images are missing.
func askRegistry(
	ctx context.Context,
	a *session.App,
	m *matrix.Matrix,
	p *fleet.Recommendation,
	repository string,
) error {
	return a.Connect(
		ctx,
		m.Defaults.Mirrors,
		nil,
		func(ctx context.Context, s *session.Session) error {
			missing, err := status.Lacking(ctx, s.Builder, repository, p.Builds())
			p.SetMissing(missing, repository)
			return err
		},
	)
}

// buildArguments are the flags of this call that builds of the images repeat.
func (o *fleetFlags) buildArguments(repository string) []string {
	words := flags.Arguments(o.flags, "insecure-registry", "matrix")
	if repository != "" {
		words = append(words, "--repository", repository)
	}
	return append(words, flags.Arguments(o.flags, "ca", "registry-mirror")...)
}

func (o *fleetFlags) print(a *session.App, p *fleet.Recommendation, repository string) error {
	switch a.Format {
	case "json":
		return a.JSON(p)
	case "values":
		return p.WriteValues(a.Stdout, repository)
	}
	tasks, err := p.Tasks(o.buildArguments(repository))
	if a.Format == "table" {
		return printTable(a, p, repository, tasks) // without commands, if a name cannot be a word of one
	}
	if err != nil {
		return err
	}
	return printTasks(a, tasks)
}

// printTable prints what people want to know: which nodes get what, who gets nothing and why, and
// the commands that build what is missing.
func printTable(
	a *session.App,
	p *fleet.Recommendation,
	repository string,
	tasks []status.Task,
) error {
	out := a.Stdout
	var rows [][]string
	for _, im := range p.Images {
		pools, running := p.PoolsOf(im, repository)
		rows = append(rows, []string{
			im.Tag,
			strings.Join(im.Archs, ","),
			some(im.GPUs, 2),
			some(im.Kernels, 1),
			cmp.Or(im.RunsCUDA, im.CUDA),
			some(im.Nodes, 3),
			im.Registry(),
			p.Exposures[im.Driver].String(),
			strings.Join(running, ", "),
			cmp.Or(strings.Join(pools, ","), "-"),
		})
	}
	columns := []string{"IMAGE", "ARCH", "GPU", "KERNEL", "CUDA", "NODES", "REGISTRY", "CVES", "RUNNING", "POOLS"}
	if len(rows) > 0 {
		err := a.Table(columns, rows)
		if err != nil {
			return err
		}
	}
	for _, hint := range p.Hints {
		fmt.Fprintf(out, "hint: %s: %s\n", some(hint.Nodes, 3), hint.Text)
	}
	for _, without := range p.Without {
		fmt.Fprintf(out, "no driver: %s: %s\n", some(without.Nodes, 3), without.Text())
	}
	printCommands(out, tasks)
	return nil
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
