package main

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/driver-container/driver-container/cmd/driver-build/flags"
	"github.com/driver-container/driver-container/cmd/driver-build/session"
	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/images"
	"github.com/driver-container/driver-container/images/status"
)

// kernelsFlags are the flags of the command kernels.
type kernelsFlags struct {
	request flags.Request
	query   status.KernelQuery
}

func newKernelsCmd(a *session.App) *cobra.Command {
	var o kernelsFlags
	q := &o.query
	s := &o.request.Targets.Selection
	cmd := &cobra.Command{
		Use: "kernels --os SYSTEM | --from IMAGE", Short: "List the kernels that a system's package repositories offer", Args: cobra.NoArgs,
		Long: "List the kernels that the package repositories of a system offer headers for, which drivers of the matrix compile on\n" +
			"each, and which images for it the registry has: PRECOMPILED have its modules, UNIVERSAL compile them on the node.\n" +
			"DEFAULT marks the series that the system installs unless told otherwise: it is what --kernel latest means.\n" +
			"SIGNED has the drivers whose modules for the kernel the distribution has signed, for --modules-from distribution.\n\n" +
			"With --from, list the kernels that images have headers and a compiler of, for --kernel-from. DEFAULT marks those that\n" +
			"the image names as its own; package of the JSON is the folder with the headers.",
		Example: "  driver-build kernels --os ubuntu22.04\n  driver-build kernels --from quay.example.com/openshift/driver-toolkit:4.18\n" +
			"  driver-build kernels --os ubuntu22.04 --kernel-flavour aws --driver 580.178.04 --repository registry.example.com/gpu/driver",
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context(), a) },
	}
	f := cmd.Flags()
	f.StringSliceVar(&s.Systems, "os", nil, "operating `SYSTEM`, such as ubuntu22.04 (repeatable)")
	f.StringSliceVar(&s.Archs, "arch", nil, "`ARCH`: amd64 or arm64 (repeatable; default amd64)")
	o.request.Targets.Matrix.AddTo(f)
	o.request.Repository.AddTo(f, "look for images in")
	o.request.Sources.AddTo(f)
	f.StringSliceVar(
		&s.Drivers,
		"driver",
		nil,
		"driver `VERSION` to look at, or a branch: its newest in the matrix (repeatable; default every one of the matrix)",
	)
	f.Var(
		session.Array(&q.From, session.Image),
		"from",
		"`IMAGE` with headers and compiler to list instead of repositories: REF, oci:DIR[:TAG], oci-archive:FILE or docker-archive:FILE (repeatable)",
	)
	f.StringSliceVar(
		&q.Flavours,
		"kernel-flavour",
		nil,
		"only kernels of a flavour, such as cloud-amd64 or aws (repeatable)",
	)
	session.Rare(f, func(f *pflag.FlagSet) {
		f.BoolVar(&q.Dates, "dates", false, "ask the mirror for the date of each kernel")
	})
	session.Format(f, &a.Format, "table", "json")
	return cmd
}

func (o *kernelsFlags) run(ctx context.Context, a *session.App) error {
	m, err := o.request.Targets.Load(a)
	if err != nil {
		return err
	}
	request, err := o.request.WithoutTargets(a, m.Defaults)
	if err != nil {
		return err
	}
	q := o.query
	q.Matrix = m
	q.Selection = o.request.Targets.Selection
	q.Options = request.Options
	q.Repository, err = o.request.Repository.Find(a, m.Defaults)
	if err != nil {
		return err
	}
	err = q.Check()
	if err != nil {
		return err
	}
	var rows []status.OfferedKernel
	failed := a.Connect(
		ctx,
		m.Defaults.Mirrors,
		nil,
		func(ctx context.Context, s *session.Session) (err error) {
			rows, err = q.List(ctx, s.Builder)
			return err
		},
	)
	a.Notes(q.Notes...)
	if failed != nil && !errors.Is(failed, images.ErrSomeFailed) {
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
		"SIGNED",
		"PRECOMPILED",
		"UNIVERSAL",
	}
	signed := slices.ContainsFunc(rows, func(r status.OfferedKernel) bool { return len(r.Signed) > 0 })
	columns := map[int]bool{
		6:  q.Dates,
		7:  len(q.From) > 0,
		9:  signed,
		10: q.Repository != "",
		11: q.Repository != "",
	}
	for title, asked := range columns {
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
			r.System, r.Arch, r.Kernel, r.Flavour, usual, r.Version, r.Date, r.From, strings.Join(r.Drivers, ","), signedDrivers(r.Signed), ready, cmp.Or(universal, "-"),
		}
	})
}

// signedDrivers names drivers with the flavours of their modules: "580.159.03 open".
func signedDrivers(all []distros.SignedDriver) string {
	var words []string
	for _, d := range all {
		words = append(words, d.Driver+" "+d.Flavour)
	}
	return strings.Join(words, ",")
}
