package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/driver-container/driver-container/cmd/driver-build/flags"
	"github.com/driver-container/driver-container/cmd/driver-build/session"
	"github.com/driver-container/driver-container/images/batch"
	"github.com/driver-container/driver-container/images/recipe"
)

// fetchFlags are the flags of the command.
type fetchFlags struct {
	selection  flags.Selection
	sources    flags.Sources
	lock, only string
	kernels    flags.Kernels
}

func newFetchCmd(a *session.App) *cobra.Command {
	var o fetchFlags
	cmd := &cobra.Command{
		Use: "fetch --os SYSTEM --driver VERSION", Short: "Download everything that targets need into the cache", Args: session.NoArgs,
		Long: "Download base images, packages and drivers of targets into the cache and verify them, so that a build can follow with\n" +
			"--offline. Prints one line a file: sha256:DIGEST, the path in the cache and the address it came from.",
		Example: "  driver-build fetch --os ubuntu22.04 --driver 580.178.04 --cache /media/cache\n" +
			"  driver-build fetch --os ubuntu22.04 --driver 580.178.04 --kernel latest --only base",
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context(), a) },
	}
	f := cmd.Flags()
	o.selection.AddTo(f)
	o.sources.AddTo(f)
	flags.Brief(f, "base", "mirror")
	o.sources.AddSource(f)
	flags.Lock(f, &o.lock)
	o.kernels.AddTo(f)
	f.StringVar(&o.only, "only", "", "base: nothing but the base images")
	return cmd
}

func (o *fetchFlags) run(ctx context.Context, a *session.App) error {
	m, b, err := o.selection.Batch(a, o.kernels.Specs)
	if err != nil {
		return err
	}
	if o.only != "" && o.only != "base" {
		return session.Usagef("--only %q is not known: use base", o.only)
	}
	if b.Plan, err = o.sources.Options(string(recipe.Full), string(recipe.Gzip), a.Getenv("SOURCE_DATE_EPOCH")); err != nil {
		return err
	}
	if err := o.kernels.Check(); err != nil {
		return session.Usage(err)
	}
	b.Kernels, b.Given.LockFile = o.kernels.Kernels, o.lock
	groups, err := groupsFromFlags(&b, nil)
	if err != nil {
		return err
	}
	programs := a.Programs(ctx, "", true) // a program that is missing is nothing to download
	if o.only == "" {
		if _, err := batch.CheckPrograms(programs, b.Targets); err != nil {
			return err
		}
	}
	show := func(d batch.Download) { printDownload(a, d) }
	return a.With(ctx, m.Defaults.Mirrors, programs, func(ctx context.Context, s *session.Session) error {
		plans, err := batch.NewPlans(s.Builder)
		if err != nil {
			return err
		}
		groups, err := groupsFromRepositories(ctx, plans, &b, groups, nil)
		if err != nil {
			return err
		}
		return b.Fetch(ctx, plans, groups, o.only == "base", show)
	})
}

func printDownload(a *session.App, d batch.Download) {
	line := d.Digest
	if d.Path != "" {
		line += " " + d.Path
	}
	a.Result(line + " " + d.Name)
}
