package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/driver-container/driver-container/cmd/driver-build/flags"
	"github.com/driver-container/driver-container/cmd/driver-build/session"
	"github.com/driver-container/driver-container/images/batch"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/releases"
	"github.com/driver-container/driver-container/images/status"
)

const planLong = `List the images that need building: those that the registry does not have, and those that are out of date, which means that
their base, packages, driver, options or driver-build are others now. With a lock nothing but the registry is asked. An image that
cannot be planned is listed too, so that its build says why. If its base or packages are out of reach now, it is left out with a
warning, and exit code 4 if nothing else is to be built. Without --os and --driver the whole matrix is meant, if it has 256 images
or fewer; --all means every one.

--format github prints the matrix of a GitHub workflow, gitlab a child pipeline whose jobs extend .driver-build with the flags of
the build in DRIVER_BUILD_ARGS. Both are valid when there is nothing to build. ci/templates has whole pipelines.`

// planFlags are the flags of the command.
type planFlags struct {
	selection                      flags.Selection
	sources                        flags.Sources
	content                        flags.Content
	repository, cert, format, lock string
	kernels                        flags.Kernels
	advisories                     flags.Advisories
	cuda                           flags.CUDA
}

func newPlanCmd(a *session.App) *cobra.Command {
	var o planFlags
	cmd := &cobra.Command{
		Use: "plan", Short: "List the images that need building, as a CI matrix", Long: planLong, Args: session.NoArgs,
		Example: "  driver-build plan --repository registry.example.com/gpu/driver\n  driver-build plan --os ubuntu22.04 --kernel latest --format github",
		RunE:    func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context(), a) },
	}
	f := cmd.Flags()
	o.selection.AddTo(f)
	flags.Repository(f, &o.repository)
	o.sources.AddTo(f)
	o.content.AddTo(f)
	f.StringVar(&o.cert, "sign-cert", "", "FILE (PEM or DER): certificate of the key that signs modules compiled ahead of time")
	f.StringVarP(&o.format, "format", "o", "table", "table, json, github or gitlab")
	flags.Lock(f, &o.lock)
	o.kernels.AddTo(f)
	o.cuda.AddTo(f)
	o.advisories.AddTo(f)
	return cmd
}

func (o *planFlags) run(ctx context.Context, a *session.App) error {
	if !slices.Contains([]string{"table", "json", "github", "gitlab"}, o.format) {
		return session.Usagef("--format %q is not known: use table, json, github or gitlab", o.format)
	}
	if err := o.advisories.Check(); err != nil {
		return err
	}
	chosen := o.selection.All || len(o.selection.Systems)+len(o.selection.Drivers) > 0
	o.selection.WholeMatrix()
	m, b, err := o.selection.Batch(a, o.kernels.Specs)
	if err != nil {
		return err
	}
	if n := len(b.Targets); n > status.MaxGitHubJobs && !chosen {
		return session.Usagef("plan builds the whole matrix, %d images: choose some with --os and --driver, keep a smaller matrix.yaml "+
			"(driver-build matrix init writes one), or give --all", n)
	}
	if err := o.cuda.Limit(m, &b); err != nil {
		return err
	}
	profile := cmp.Or(o.content.Profile, m.Defaults.Profile)
	if b.Plan, err = o.sources.Options(profile, string(recipe.Gzip), a.Getenv("SOURCE_DATE_EPOCH")); err != nil {
		return err
	}
	if err := o.kernels.Check(); err != nil {
		return session.Usage(err)
	}
	b.Kernels = o.kernels.Kernels
	a.Given(&b.Given)
	b.Given.LockFile, b.Given.Profile, b.Given.AllowMissing = o.lock, o.content.Profile, o.content.Programs.AllowMissing
	if b.Repository = a.Repository(o.repository, m.Defaults); b.Repository == "" {
		return session.Usagef("give --repository REGISTRY/PATH to look for images in, DRIVER_BUILD_REPOSITORY in the environment, or defaults.repository in the matrix")
	}
	if err := batch.CheckRepository(b.Repository); err != nil {
		return err
	}
	if err := o.certificate(&b.Plan); err != nil {
		return session.Usage(err)
	}
	groups, err := groupsFromFlags(&b, nil)
	if err != nil {
		return err
	}
	programs, err := o.content.Programs.Find(ctx, a, b.Targets)
	if err != nil {
		return err
	}
	var due status.Builds
	if err := a.With(ctx, m.Defaults.Mirrors, programs, func(ctx context.Context, s *session.Session) (err error) {
		due, err = status.Due(ctx, &b, s.Builder, groups)
		return err
	}); err != nil {
		printLeft(a, due.Left)
		return err
	}
	printLeft(a, due.Left)
	tasks := due.Tasks
	if len(tasks) == 0 {
		a.Notes(fmt.Sprintf("all %d images are up to date", due.Checked))
	}
	for i, t := range tasks {
		if n := slices.IndexFunc(m.Drivers, func(d matrix.Driver) bool { return d.Version == t.Driver }); n >= 0 {
			tasks[i].Advisories = releases.Notes(m.Drivers[n], o.advisories.Day)
		}
	}
	if err := printTasks(a, tasks, o.format); err != nil {
		return err
	}
	return o.advisories.Report(a, b.Targets)
}

// printLeft says which images the plan leaves out, once for each cause.
func printLeft(a *session.App, left map[string][]string) {
	for _, cause := range slices.Sorted(maps.Keys(left)) {
		tags := left[cause]
		fmt.Fprintf(a.Stderr, "warning: %d images are left out, because a build of them cannot work now: %s: %s", len(tags), cause, tags[0])
		if len(tags) > 1 {
			fmt.Fprintf(a.Stderr, " to %s", tags[len(tags)-1])
		}
		fmt.Fprintln(a.Stderr)
	}
}

// certificate reads the certificate of the key that signs, which is part of the content of an image.
func (o *planFlags) certificate(p *recipe.Options) error {
	if o.cert == "" {
		return nil
	}
	if !o.kernels.Compile() {
		return errors.New("--sign-cert is about modules that are compiled ahead of time: give --kernel too")
	}
	all, err := flags.Certificates([]string{o.cert})
	if err != nil {
		return err
	}
	if len(all) != 1 {
		return fmt.Errorf("--sign-cert %s: it holds %d certificates, give the one of the key", o.cert, len(all))
	}
	p.Signer = all[0]
	return nil
}

func printTasks(a *session.App, tasks []status.Task, format string) error {
	switch format {
	case "github":
		if len(tasks) > status.MaxGitHubJobs {
			fmt.Fprintf(a.Stderr, "note: %d images need building, the first %d are listed: a matrix has no more jobs; plan again when they are there\n",
				len(tasks), status.MaxGitHubJobs)
		}
		return status.WriteGitHub(a.Stdout, tasks)
	case "gitlab":
		return status.WriteGitLab(a.Stdout, tasks)
	case "json":
		return a.JSON(session.NewList(tasks))
	}
	w := tabwriter.NewWriter(a.Stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "TAG\tARCH\tREASON")
	for _, t := range tasks {
		fmt.Fprintf(w, "%s\t%s\t%s\n", t.Tag, strings.Join(t.Archs, ","), t.Reason)
	}
	return w.Flush()
}
