package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/driver-container/driver-container/cmd/driver-build/flags"
	"github.com/driver-container/driver-container/cmd/driver-build/session"
	"github.com/driver-container/driver-container/images/batch"
	"github.com/driver-container/driver-container/images/outfile"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/status"
)

const reportLong = `Write a page that shows the matrix: systems by drivers, which images the registry has and which it lacks, their tags, digests and
sizes, the kernels of each, and why a pair cannot be built. The page is one file that needs no network and no script; it can be put
on any web server, mailed, printed.

Whether an image is out of date is said when there is a lock, or with --compare, which asks the package repositories as plan does.
Without --os and --driver the whole matrix is meant. SOURCE_DATE_EPOCH sets the time on the page.`

// reportFlags are the flags of the command.
type reportFlags struct {
	selection                               flags.Selection
	content                                 flags.Content
	sources                                 flags.Sources
	repository, lock, releases, file, title string
	compare                                 bool
	advisories                              flags.Advisories
	cuda                                    flags.CUDA
}

func newReportCmd(a *session.App) *cobra.Command {
	var o reportFlags
	cmd := &cobra.Command{
		Use: "report --html FILE", Short: "Write a page that shows what is built of the matrix", Long: reportLong, Args: session.NoArgs,
		Example: "  driver-build report --html index.html --repository registry.example.com/gpu/driver\n  driver-build report --html - --os ubuntu22.04 > ubuntu22.04.html",
		RunE:    func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context(), a) },
	}
	f := cmd.Flags()
	f.StringVar(&o.file, "html", "", "FILE to write, - for stdout")
	o.selection.AddTo(f)
	f.StringVar(&o.repository, "repository", "", "REGISTRY/PATH to look for images in (default: $DRIVER_BUILD_REPOSITORY, else the matrix's; without any no registry is asked)")
	f.BoolVar(&o.compare, "compare", false, "plan every image, to tell which are out of date")
	o.sources.AddTo(f)
	o.content.AddTo(f)
	releasesFlag(f, &o.releases)
	f.StringVar(&o.title, "title", "", "heading of the page (default NVIDIA driver images)")
	flags.Lock(f, &o.lock)
	o.cuda.AddTo(f)
	o.advisories.AddTo(f)
	return cmd
}

func (o *reportFlags) run(ctx context.Context, a *session.App) error {
	if o.file == "" {
		return session.Usagef("give --html FILE, or --html - for stdout")
	}
	if o.file != "-" {
		if err := outfile.Check(o.file); err != nil {
			return session.Usagef("--html: %w", err)
		}
	}
	if err := o.advisories.Check(); err != nil {
		return err
	}
	selection := o.selection.Selection
	o.selection.All = true
	m, b, err := o.selection.Batch(a, nil)
	if err != nil {
		return err
	}
	r := status.ReportOptions{Title: o.title, Tool: "driver-build " + session.BuildInfo().Version, Matrix: m, Compare: o.compare}
	if r.Time, err = a.Now(); err != nil {
		return err
	}
	if r.CUDA, err = o.cuda.Release(m); err != nil {
		return err
	}
	profile := cmp.Or(o.content.Profile, m.Defaults.Profile)
	if b.Plan, err = o.sources.Options(profile, string(recipe.Gzip), a.Getenv("SOURCE_DATE_EPOCH")); err != nil {
		return err
	}
	pairs, err := batch.Pairs(m, selection)
	if err != nil {
		return err
	}
	b.Repository, b.Given.LockFile = a.Repository(o.repository, m.Defaults), o.lock
	if err := errors.Join(batch.CheckRepository(b.Repository), b.OpenLock()); err != nil {
		return err
	}
	programs := a.Programs(ctx, o.content.Programs.Entrypoint, o.content.Programs.AllowMissing)
	if o.content.Programs.Entrypoint != "" {
		if _, err := batch.CheckPrograms(programs, b.Targets); err != nil {
			return err
		}
	}
	var notes []string
	if a.Offline && b.Repository != "" {
		b.Repository = ""
		notes = append(notes, "the registry was not asked (--offline)")
	}
	var shown status.Page
	if err := a.With(ctx, m.Defaults.Mirrors, programs, func(ctx context.Context, s *session.Session) error {
		known, fresh, err := knownDrivers(ctx, a, s, o.releases)
		if err != nil {
			return err
		}
		notes, r.Releases = append(notes, fresh...), known
		shown, err = status.Report(ctx, &b, s.Builder, pairs, r)
		return err
	}); err != nil {
		return err
	}
	shown.Notes = slices.Concat(notes, shown.Notes)
	a.Notes(shown.Notes...)
	if err := writePage(ctx, a, o.file, shown); err != nil {
		return err
	}
	return o.advisories.Report(a, b.Targets)
}

func writePage(ctx context.Context, a *session.App, file string, shown status.Page) error {
	if file == "-" {
		return shown.Write(a.Stdout)
	}
	if err := outfile.Write(ctx, file, shown.Write); err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	return nil
}
