package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/driver-container/driver-container/images/batch"
	"github.com/driver-container/driver-container/images/recipe"
)

// fetchFlags are the flags of the command.
type fetchFlags struct {
	selection  selectionFlags
	sources    sourceFlags
	lock, only string
	kernels    kernelFlags
}

func newFetchCmd(a *app) *cobra.Command {
	var o fetchFlags
	cmd := &cobra.Command{
		Use: "fetch --os SYSTEM --driver VERSION", Short: "Download everything that targets need into the cache", Args: noArgs,
		Long: "Download base images, packages and drivers of targets into the cache and verify them, so that a build can follow with\n" +
			"--offline. Prints one line a file: sha256:DIGEST, the path in the cache and the address it came from.",
		RunE: func(cmd *cobra.Command, _ []string) error { return a.fetch(cmd.Context(), o) },
	}
	f := cmd.Flags()
	o.selection.flags(f)
	o.sources.flags(f)
	brief(f, "base", "mirror")
	o.sources.sourceFlag(f)
	lockFlag(f, &o.lock)
	o.kernels.flags(f)
	f.StringVar(&o.only, "only", "", "base: nothing but the base images")
	return cmd
}

func (a *app) fetch(ctx context.Context, o fetchFlags) error {
	m, b, err := o.selection.batch()
	if err != nil {
		return err
	}
	if o.only != "" && o.only != "base" {
		return usageError{fmt.Errorf("--only %q is not known: use base", o.only)}
	}
	if b.Plan, err = o.sources.Options(string(recipe.Full), string(recipe.Gzip), a.getenv("SOURCE_DATE_EPOCH")); err != nil {
		return err
	}
	if err := o.kernels.Check(); err != nil {
		return usageError{err}
	}
	b.Kernels, b.Given.LockFile = o.kernels.Kernels, o.lock
	groups, err := groupsFromFlags(&b, nil)
	if err != nil {
		return err
	}
	programs := a.programs("")
	if o.only == "" {
		if err := batch.CheckPrograms(programs, b.Targets); err != nil {
			return err
		}
	}
	return a.with(ctx, m.Defaults.Mirrors, programs, func(ctx context.Context, s *session) error {
		groups, err := groupsFromRepositories(ctx, s, &b, groups, nil)
		if err != nil {
			return err
		}
		if o.only == "base" {
			return b.Bases(ctx, s.Builder, groups, a.printDownload)
		}
		return b.Fetch(ctx, s.Builder, groups, a.printDownload)
	})
}

func (a *app) printDownload(d batch.Download) {
	line := d.Digest
	if d.Path != "" {
		line += " " + d.Path
	}
	a.result(line + " " + d.Name)
}
