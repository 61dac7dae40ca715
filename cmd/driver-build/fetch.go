package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/driver-container/driver-container/cmd/driver-build/flags"
	"github.com/driver-container/driver-container/cmd/driver-build/session"
	"github.com/driver-container/driver-container/images/batch"
	"github.com/driver-container/driver-container/images/recipe"
)

func newFetchCmd(a *session.App) *cobra.Command {
	var o flags.Common
	var only string
	cmd := &cobra.Command{
		Use: "fetch --os SYSTEM --driver VERSION", Short: "Download everything that targets need into the cache", Args: cobra.NoArgs,
		Long: "Download base images, packages and drivers of targets into the cache and verify them, so that a build can follow with\n" +
			"--offline. Prints one line a file: sha256:DIGEST, the path in the cache and the address it came from.",
		Example: "  driver-build fetch --os ubuntu22.04 --driver 580.178.04 --cache /media/cache\n" +
			"  driver-build fetch --os ubuntu22.04 --driver 580.178.04 --kernel latest --only base",
		RunE: func(cmd *cobra.Command, _ []string) error { return fetchAll(cmd.Context(), a, &o, only) },
	}
	f := cmd.Flags()
	o.AddTo(f, flags.Targets, flags.Sources, flags.Kernels, "source lock")
	session.Describe(f, "base", "base `IMAGE` instead of the row's")
	session.Describe(f, "mirror", "package mirror instead of the addresses in the base's configuration: `URL` or PREFIX=URL")
	f.StringVar(&only, "only", "", "`base`: nothing but the base images")
	return cmd
}

func fetchAll(ctx context.Context, a *session.App, o *flags.Common, only string) error {
	o.Given.Profile = string(recipe.Full)
	m, err := o.Choose(a)
	if err != nil {
		return err
	}
	if only != "" && only != "base" {
		return session.Usagef("--only %q is not known: use base", only)
	}
	groups, err := o.NamedGroups()
	if err != nil {
		return err
	}
	programs := a.Programs(ctx, "", true) // a program that is missing is nothing to download
	if only == "" {
		if _, err := batch.CheckPrograms(programs, o.Targets); err != nil {
			return err
		}
	}
	return a.With(ctx, m.Defaults.Mirrors, programs, func(ctx context.Context, s *session.Session) error {
		plans, err := batch.NewPlans(s.Builder)
		if err == nil && groups == nil {
			groups, err = o.Groups(o.Offered(ctx, plans))
		}
		if err != nil {
			return err
		}
		show := func(d batch.Download) {
			line := d.Digest
			if d.Path != "" {
				line += " " + d.Path
			}
			a.Result(line + " " + d.Name)
		}
		return o.Fetch(ctx, plans, groups, only == "base", show)
	})
}
