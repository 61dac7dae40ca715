package main

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/driver-container/driver-container/cmd/driver-build/flags"
	"github.com/driver-container/driver-container/cmd/driver-build/session"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/releases"
)

// driversFlags are the flags of the command.
type driversFlags struct {
	matrix   flags.Matrix
	releases flags.Releases
	cuda     flags.CUDA
	policy   flags.Policy
	branches []string
	redist   []string
	lagging  bool
}

func newDriversCmd(a *session.App) *cobra.Command {
	var o driversFlags
	cmd := &cobra.Command{
		Use: "drivers [BRANCH...]", Short: "List the drivers there are, and where the matrix lags behind",
		Long: "List the branches of the driver: kind, end of life, newest release, CUDA version, what the matrix has of each and whether\n" +
			"it lags behind. With BRANCH (R535, or any version of it) their releases. The data are a table in this program, completed\n" +
			"by NVIDIA's list of data center releases where that can be reached.",
		Example: "  driver-build drivers\n  driver-build drivers R535 R580\n  driver-build drivers --lagging --releases releases.json",
		RunE: func(cmd *cobra.Command, args []string) error {
			o.branches = args
			return o.run(cmd.Context(), a)
		},
	}
	f := cmd.Flags()
	o.matrix.AddTo(f)
	o.releases.AddTo(f)
	o.cuda.AddTo(f)
	o.policy.AddTo(f)
	session.Rare(f, func(f *pflag.FlagSet) {
		f.StringArrayVar(
			&o.redist,
			"redist",
			nil,
			"FILE or URL of a redistrib_VERSION.json: its release, compared with the matrix (repeatable)",
		)
	})
	f.BoolVar(&o.lagging, "lagging", false, "only branches whose newest release the matrix lacks; exit code 3 when there are any")
	session.Format(f, &a.Format, "table", "json")
	return cmd
}

func (o *driversFlags) run(ctx context.Context, a *session.App) error {
	for _, name := range o.branches {
		err := releases.CheckBranch(name)
		if err != nil {
			return session.Usage(err)
		}
	}
	m, err := o.matrix.Load(a, nil)
	if err != nil {
		return err
	}
	cuda, err := o.cuda.Find(a, m)
	if err != nil {
		return err
	}
	advisor, err := o.policy.Advisor(a)
	if err != nil {
		return err
	}
	var known *releases.Table
	var notes []string
	err = a.Connect(
		ctx,
		m.Defaults.Mirrors,
		nil,
		func(ctx context.Context, s *session.Session) (err error) {
			known, notes, err = knownDrivers(ctx, a, s, o.releases.Location)
			if err != nil {
				return err
			}
			known, err = o.withManifests(ctx, a, s, m, known)
			return err
		},
	)
	a.Notes(notes...)
	if err != nil {
		return err
	}
	rows, err := known.Coverage(m, advisor, cuda, o.branches, o.lagging)
	if err != nil {
		return session.Usage(err)
	}
	err = o.print(a, rows)
	if err != nil {
		return err
	}
	if cuda != nil {
		a.Notes(cuda.Explain())
	}
	var lagging error
	if o.lagging {
		lagging = releases.LagError(rows)
	}
	return errors.Join(lagging, o.denied(a, m, rows))
}

// denied is the error of --deny, about the drivers that the matrix has of the branches that were
// shown.
func (o *driversFlags) denied(a *session.App, m *matrix.Matrix, rows []releases.Coverage) error {
	targets, err := m.Select(matrix.Selection{All: true, Archs: matrix.Archs()})
	if err != nil || len(o.policy.Deny) == 0 { // the table has all that is known
		return err
	}
	return o.policy.Report(a, slices.DeleteFunc(targets, func(t matrix.Target) bool {
		return !slices.ContainsFunc(rows, func(r releases.Coverage) bool { return slices.Contains(r.Matrix, t.Driver.Version) })
	}), false)
}

// withManifests adds the releases of --redist to those that are known, and compares their checksums
// with the matrix.
func (o *driversFlags) withManifests(
	ctx context.Context, a *session.App, s *session.Session, m *matrix.Matrix, known *releases.Table,
) (*releases.Table, error) {
	for _, name := range o.redist {
		source, err := sourceOf(a, s, "--redist", name)
		if err != nil {
			return nil, err
		}
		merged, release, err := known.ReadManifest(ctx, source, "")
		if err != nil {
			return nil, err
		}
		err = release.CheckMatrix(m)
		if err != nil {
			return nil, err
		}
		known = merged
	}
	return known, nil
}

// sourceOf is where a flag says that NVIDIA's list, or a manifest, is read.
func sourceOf(a *session.App, s *session.Session, flag, value string) (releases.Source, error) {
	source := releases.Source{Name: value, None: value == "none", Offline: a.Offline}
	source.Read = func(ctx context.Context, address string, limit int64) ([]byte, error) {
		step := s.Builder.Observe.Begin("drivers", "read "+address)
		text, err := s.Builder.Fetch.Latest(ctx, address, limit)
		_ = step.End(false, nil) // the command says what went wrong
		return text, err
	}
	if value == "" || source.None {
		return source, nil
	}
	var err error
	source.Address, err = fetch.Address(flag, value)
	if err != nil {
		return source, session.Usage(err)
	}
	return source, nil
}

// knownDrivers reads the table of the drivers there are.
func knownDrivers(ctx context.Context, a *session.App, s *session.Session, flag string) (*releases.Table, []string, error) {
	source, err := sourceOf(a, s, "--releases", flag)
	if err != nil {
		return nil, nil, err
	}
	return releases.Load(ctx, source)
}

// print prints branches, or the releases of those that were named.
func (o *driversFlags) print(a *session.App, rows []releases.Coverage) error {
	runs := "" // the title of a column that is there with --cuda
	if o.cuda.Version != "" {
		runs = "RUNS IT"
	}
	if len(o.branches) > 0 && a.Format == "table" {
		var all []releases.ReleaseCoverage
		for _, b := range rows {
			for _, r := range slices.Backward(b.Releases) {
				all = append(all, r)
			}
		}
		titles := []string{"VERSION", "RELEASED", "KERNELS", "ARCHIVES", "SHA256", "MATRIX", "CUDA", runs, "CVES", "NOTE"}
		return session.ShowList(a, all, titles, func(r releases.ReleaseCoverage) []string {
			in := ""
			if r.InMatrix {
				in = "yes"
			}
			return []string{
				r.Version, r.Date, prefixed("up to ", r.Kernel), strings.Join(r.Archs, " "), strings.Join(r.Checked, " "), in, r.CUDA, r.RunsCUDA, r.Exposure.String(), r.Note(),
			}
		})
	}
	if len(rows) == 0 && a.Format == "table" { // --lagging, and nothing lags: nothing to say
		return nil
	}
	titles := []string{"BRANCH", "KIND", "END OF LIFE", "NEWEST", "RELEASED", "CUDA", runs, "KERNELS", "MATRIX", "CVES", "NOTE"}
	return session.ShowList(a, rows, titles, func(r releases.Coverage) []string {
		end := r.End
		if r.Over && end != releases.EndPassed {
			end = "over " + end
		}
		return []string{
			r.Name, string(r.Type), end, r.Newest, r.Date, r.CUDA, r.RunsCUDA, prefixed("from ", r.Kernel), strings.Join(r.Matrix, " "), r.Exposure.String(), r.Note(),
		}
	})
}
