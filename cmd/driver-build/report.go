package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/driver-container/driver-container/cmd/driver-build/flags"
	"github.com/driver-container/driver-container/cmd/driver-build/session"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/outfile"
	"github.com/driver-container/driver-container/images/status"
)

const reportLong = `Write a page that shows the matrix: systems by drivers, which images the registry has and which it lacks, their tags, digests and
sizes, the kernels of each, and why a pair cannot be built. The page is one file that needs no network and no script; it can be put
on any web server, mailed, printed.

Whether an image is out of date is said when there is a lock, or with --compare, which asks the package repositories as plan does.
Without --os and --driver the whole matrix is meant. SOURCE_DATE_EPOCH sets the time on the page.`

// reportFlags are the flags of the command report.
type reportFlags struct {
	survey   flags.Survey
	cuda     flags.CUDA
	releases flags.Releases
	options  status.ReportOptions
	file     string
}

func newReportCmd(a *session.App) *cobra.Command {
	var o reportFlags
	cmd := &cobra.Command{
		Use: "report --html FILE", Short: "Write a page that shows what is built of the matrix", Long: reportLong, Args: cobra.NoArgs,
		Example: "  driver-build report --html index.html --repository registry.example.com/gpu/driver\n  driver-build report --html - --os ubuntu22.04 > ubuntu22.04.html",
		RunE:    func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context(), a) },
	}
	f := cmd.Flags()
	o.survey.AddTo(f)
	o.survey.Request.Profile.AddTo(f)
	o.cuda.AddTo(f)
	o.releases.AddTo(f)
	f.Var(
		session.String(&o.file, session.Valid(outfile.Check).Or("-")),
		"html",
		"`FILE` to write, - for stdout",
	)
	session.Rare(f, func(f *pflag.FlagSet) {
		f.BoolVar(
			&o.options.Compare,
			"compare",
			false,
			"plan every image, to tell which are out of date",
		)
		f.StringVar(
			&o.options.Title,
			"title",
			"",
			"heading of the page (default NVIDIA driver images)",
		)
	})
	return cmd
}

func (o *reportFlags) run(ctx context.Context, a *session.App) error {
	if o.file == "" {
		return session.Usagef("give --html FILE, or --html - for stdout")
	}
	m, q, err := o.survey.Load(a)
	if err != nil {
		return err
	}
	selection := o.survey.Request.Targets.Selection
	pairs, err := status.Pairs(m, selection)
	if err != nil {
		return err
	}
	o.survey.Request.Targets.Selection.All = true
	q.Request, err = o.survey.Request.Images(a, m)
	if err != nil {
		return err
	}
	options, err := o.page(a, m)
	if err != nil {
		return err
	}
	var notes []string
	if a.Offline && q.Repository != "" {
		q.Repository = ""
		notes = append(notes, "the registry was not asked (--offline)")
	}
	var page status.Page
	ask := func(ctx context.Context, s *session.Session) (err error) {
		var fresh []string
		options.Releases, fresh, err = knownDrivers(ctx, a, s, o.releases.Location)
		if err != nil {
			return err
		}
		notes = append(notes, fresh...)
		page, err = status.Report(ctx, s.Builder, q, pairs, options)
		return err
	}
	err = o.survey.Connect(ctx, a, m, &q, ask)
	if err != nil {
		return err
	}
	page.Notes = slices.Concat(notes, page.Notes)
	a.Notes(page.Notes...)
	err = o.write(ctx, a, page)
	if err != nil {
		return err
	}
	return o.survey.Policy.Report(a, q.Request.Targets, true)
}

// page returns what the page shows beside the pairs.
func (o *reportFlags) page(a *session.App, m *matrix.Matrix) (options status.ReportOptions, err error) {
	options = o.options
	options.Tool = "driver-build " + session.BuildInfo().Version
	options.Matrix = m
	options.MatrixFile = o.survey.Request.Targets.Matrix.File
	options.CUDA, err = o.cuda.Find(a, m)
	if err != nil {
		return options, err
	}
	options.Advisor, err = o.survey.Policy.AdvisorNow(a)
	options.Time = options.Advisor.Day
	return options, err
}

// write writes the page to the file, or to stdout.
func (o *reportFlags) write(ctx context.Context, a *session.App, page status.Page) error {
	if o.file == "-" {
		return page.Write(a.Stdout)
	}
	err := outfile.Write(ctx, o.file, page.Write)
	if err != nil {
		return fmt.Errorf("write %s: %w", o.file, err)
	}
	return nil
}
