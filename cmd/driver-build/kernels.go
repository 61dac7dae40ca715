package main

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/driver-container/driver-container/cmd/driver-build/flags"
	"github.com/driver-container/driver-container/cmd/driver-build/session"
	"github.com/driver-container/driver-container/images/batch"
	"github.com/driver-container/driver-container/images/status"
)

func newKernelsCmd(a *session.App) *cobra.Command {
	var o flags.Common
	var q status.KernelQuery
	cmd := &cobra.Command{
		Use: "kernels --os SYSTEM | --from IMAGE", Short: "List the kernels that a system's package repositories offer", Args: cobra.NoArgs,
		Long: "List the kernels that the package repositories of a system offer headers for, which drivers of the matrix compile on\n" +
			"each, and which images for it the registry has: PRECOMPILED have its modules, UNIVERSAL compile them on the node.\n" +
			"DEFAULT marks the series that the system installs unless told otherwise: it is what --kernel latest means.\n\n" +
			"With --from, list the kernels that images have headers and a compiler of, for --kernel-from. DEFAULT marks those that\n" +
			"the image names as its own; package of the JSON is the folder with the headers.",
		Example: "  driver-build kernels --os ubuntu22.04\n  driver-build kernels --from quay.example.com/openshift/driver-toolkit:4.18\n" +
			"  driver-build kernels --os ubuntu22.04 --kernel-flavour aws --driver 580.178.04 --repository registry.example.com/gpu/driver",
		RunE: func(cmd *cobra.Command, _ []string) error { return listKernels(cmd.Context(), a, &o, q) },
	}
	f := cmd.Flags()
	o.AddTo(f, "os arch driver matrix repository", flags.Sources)
	session.Describe(
		f,
		"driver",
		"driver `VERSION` to look at, or a branch: its newest in the matrix (repeatable; default every one of the matrix)",
	)
	f.StringArrayVar(
		&q.From,
		"from",
		nil,
		"`IMAGE` with headers and compiler to list instead of repositories: REF, oci:DIR[:TAG], oci-archive:FILE or docker-archive:FILE (repeatable)",
	)
	session.Images(f, "from")
	f.StringSliceVar(
		&q.Flavours,
		"kernel-flavour",
		nil,
		"only kernels of a flavour, such as cloud-amd64 or aws (repeatable)",
	)
	f.BoolVar(&q.Dates, "dates", false, "ask the mirror for the date of each kernel")
	session.Hide(f, "dates")
	session.Format(f, &a.Format, "table or json")
	return cmd
}

func listKernels(ctx context.Context, a *session.App, o *flags.Common, q status.KernelQuery) error {
	m, err := o.Load(a)
	if err != nil {
		return err
	}
	q.Matrix = m
	q.Selection = o.Selection
	q.Repository = o.Repository
	q.Plan = o.Plan
	if err := q.Check(); err != nil {
		return err
	}
	var rows []status.OfferedKernel
	failed := a.With(
		ctx,
		m.Defaults.Mirrors,
		nil,
		func(ctx context.Context, s *session.Session) (err error) {
			rows, err = q.List(ctx, s.Builder)
			return err
		},
	)
	a.Notes(q.Notes...)
	if failed != nil && !errors.Is(failed, batch.ErrSomeFailed) {
		return failed
	}
	return errors.Join(failed, printKernels(a, rows, q))
}

// printKernels prints the table; a column that nobody asked for is left out.
func printKernels(a *session.App, rows []status.OfferedKernel, q status.KernelQuery) error {
	titles := []string{
		"OS",
		"ARCH",
		"KERNEL",
		"FLAVOUR",
		"DEFAULT",
		"VERSION",
		"DATE",
		"FROM",
		"DRIVERS",
		"PRECOMPILED",
		"UNIVERSAL",
	}
	for title, asked := range map[int]bool{6: q.Dates, 7: len(q.From) > 0, 9: q.Repository != "", 10: q.Repository != ""} {
		if !asked {
			titles[title] = ""
		}
	}
	return session.ShowList(a, rows, titles, func(r status.OfferedKernel) []string {
		usual := ""
		ready := strings.Join(r.Ready, ",")
		universal := strings.Join(
			slices.DeleteFunc(
				slices.Clone(r.Images),
				func(tag string) bool { return slices.Contains(r.Ready, tag) },
			),
			",",
		)
		if r.Default {
			usual = "yes"
		}
		if r.Images == nil {
			ready = "unknown"
			universal = "unknown"
		}
		return []string{
			r.System, r.Arch, r.Kernel, r.Flavour, usual, r.Version, r.Date, r.From, strings.Join(r.Drivers, ","), ready, cmp.Or(universal, "-"),
		}
	})
}
