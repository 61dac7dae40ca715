package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/driver-container/driver-container/cmd/driver-build/flags"
	"github.com/driver-container/driver-container/cmd/driver-build/session"
	"github.com/driver-container/driver-container/images/batch"
	"github.com/driver-container/driver-container/images/outfile"
	"github.com/driver-container/driver-container/images/status"
)

const reportLong = `Write a page that shows the matrix: systems by drivers, which images the registry has and which it lacks, their tags, digests and
sizes, the kernels of each, and why a pair cannot be built. The page is one file that needs no network and no script; it can be put
on any web server, mailed, printed.

Whether an image is out of date is said when there is a lock, or with --compare, which asks the package repositories as plan does.
Without --os and --driver the whole matrix is meant. SOURCE_DATE_EPOCH sets the time on the page.`

func newReportCmd(a *session.App) *cobra.Command {
	var o flags.Common
	var r status.ReportOptions
	var file string
	cmd := &cobra.Command{
		Use: "report --html FILE", Short: "Write a page that shows what is built of the matrix", Long: reportLong, Args: cobra.NoArgs,
		Example: "  driver-build report --html index.html --repository registry.example.com/gpu/driver\n  driver-build report --html - --os ubuntu22.04 > ubuntu22.04.html",
		RunE:    func(cmd *cobra.Command, _ []string) error { return report(cmd.Context(), a, &o, r, file) },
	}
	f := cmd.Flags()
	o.AddTo(
		f,
		flags.Targets,
		flags.Sources,
		flags.Programs,
		flags.Judged,
		"profile repository releases lock cuda",
	)
	session.Describe(
		f,
		"repository",
		"`REGISTRY/PATH` to look for images in (default: $DRIVER_BUILD_REPOSITORY, else the matrix's; without any no registry is asked)",
	)
	f.StringVar(&file, "html", "", "`FILE` to write, - for stdout")
	session.CheckUnless(f, "-", outfile.Check, "html")
	f.BoolVar(&r.Compare, "compare", false, "plan every image, to tell which are out of date")
	f.StringVar(&r.Title, "title", "", "heading of the page (default NVIDIA driver images)")
	session.Hide(f, "title", "compare")
	return cmd
}

func report(
	ctx context.Context,
	a *session.App,
	o *flags.Common,
	r status.ReportOptions,
	file string,
) error {
	if file == "" {
		return session.Usagef("give --html FILE, or --html - for stdout")
	}
	selection := o.Selection
	o.Selection.All = true
	m, err := o.Choose(a)
	if err != nil {
		return err
	}
	r.Tool = "driver-build " + session.BuildInfo().Version
	r.Matrix = m
	r.CUDA = o.CUDA
	r.Time, err = a.Now()
	if err != nil {
		return err
	}
	pairs, err := batch.Pairs(m, selection)
	if err != nil {
		return err
	}
	if err := o.OpenLock(); err != nil {
		return err
	}
	var notes []string
	if a.Offline && o.Repository != "" {
		o.Repository = ""
		notes = append(notes, "the registry was not asked (--offline)")
	}
	var shown status.Page
	if err := o.With(ctx, a, false, func(ctx context.Context, s *session.Session) error {
		known, fresh, err := knownDrivers(ctx, a, s, o.Releases)
		if err != nil {
			return err
		}
		notes = append(notes, fresh...)
		r.Releases = known
		shown, err = status.Report(ctx, &o.Batch, s.Builder, pairs, r)
		return err
	}); err != nil {
		return err
	}
	shown.Notes = slices.Concat(notes, shown.Notes)
	a.Notes(shown.Notes...)
	if file == "-" {
		err = shown.Write(a.Stdout)
	} else if err = outfile.Write(ctx, file, shown.Write); err != nil {
		err = fmt.Errorf("write %s: %w", file, err)
	}
	if err != nil {
		return err
	}
	return o.Report(a, o.Targets, true)
}
