package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/releases"
)

// driversOptions are the flags of the command.
type driversOptions struct {
	selection selection // matrixFile only
	branches  []string
	releases  string
	at        string
	lagging   bool
	format    string
}

// branchRow is one branch, with what the matrix has of it.
type branchRow struct {
	Branch    string       `json:"branch"`
	Kind      string       `json:"kind,omitempty"`
	EndOfLife string       `json:"endOfLife,omitempty"` // last month of support, or "over"
	Over      bool         `json:"over"`
	CUDA      string       `json:"cuda,omitempty"`
	Kernel    string       `json:"minKernel,omitempty"`
	Newest    string       `json:"newest,omitempty"`
	Date      string       `json:"newestDate,omitempty"`
	Matrix    []string     `json:"matrix"` // versions that the matrix has, rising
	Lags      bool         `json:"lags"`   // the matrix has the branch, but not its newest release
	Releases  []releaseRow `json:"releases"`
}

// releaseRow is one release.
type releaseRow struct {
	Version  string   `json:"version"`
	Date     string   `json:"date,omitempty"`
	Kernel   string   `json:"maxKernel,omitempty"`
	Notes    string   `json:"notes,omitempty"`
	InMatrix bool     `json:"inMatrix"`
	Archs    []string `json:"archs"`     // archives that are known
	Checked  []string `json:"checksums"` // those whose sha256 is known
}

// behindError says that the matrix lacks releases; as that of check, its exit code is 3.
type behindError struct{ lags []string }

func (e *behindError) Error() string {
	return "the matrix lags behind: " + strings.Join(e.lags, ", ") + "; driver-build matrix add-driver VERSION adds a release"
}

// Is makes it one of the errors of exit code 3.
func (e *behindError) Is(target error) bool { return target == errSomeFailed }

func newDriversCmd(a *app) *cobra.Command {
	var o driversOptions
	cmd := &cobra.Command{
		Use: "drivers [BRANCH...]", Short: "List the drivers there are, and where the matrix lags behind",
		Long: "List the branches of the driver: kind, end of life, newest release, CUDA version, what the matrix has of each and whether\n" +
			"it lags behind. With BRANCH (R535, or any version of it) their releases. The data are a table in this program, completed\n" +
			"by NVIDIA's list of data center releases where that can be reached.",
		Example: "  driver-build drivers\n  driver-build drivers R535 R580\n  driver-build drivers --lagging --releases releases.json",
		RunE: func(cmd *cobra.Command, args []string) error {
			o.branches = args
			return a.drivers(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.selection.matrixFile, "matrix", "", "the version matrix (default ./matrix.yaml, else the one in this program)")
	f.StringVar(&o.releases, "releases", "", releasesHelp)
	f.StringVar(&o.at, "at", "", "YYYY-MM-DD: judge the end of life on that day (default today)")
	f.BoolVar(&o.lagging, "lagging", false, "only branches whose newest release the matrix lacks; exit code 3 when there are any")
	f.StringVarP(&o.format, "format", "o", "table", "table or json")
	return cmd
}

func (a *app) drivers(ctx context.Context, o driversOptions) error {
	m, err := o.selection.load()
	if err != nil {
		return err
	}
	at, err := a.now()
	if err != nil {
		return err
	}
	if o.at != "" {
		if at, err = time.Parse(time.DateOnly, o.at); err != nil {
			return usageError{fmt.Errorf("--at %q is no day, such as 2026-06-30", o.at)}
		}
	}
	if o.format != "table" && o.format != "json" {
		return usageError{fmt.Errorf("-o %q is not known: use table or json", o.format)}
	}
	var known knownDrivers
	err = a.with(ctx, m.Defaults.Mirrors, "", func(ctx context.Context, s *session) (err error) {
		known, err = a.knownDrivers(ctx, s, o.releases)
		return err
	})
	for _, n := range known.notes {
		fmt.Fprintln(a.stderr, "note: "+n)
	}
	if err != nil {
		return err
	}
	rows, err := o.rows(known.Table, m, at)
	if err != nil {
		return usageError{err}
	}
	if err := a.printDrivers(rows, o); err != nil {
		return err
	}
	if o.lagging && len(rows) > 0 {
		e := new(behindError)
		for _, r := range rows {
			e.lags = append(e.lags, fmt.Sprintf("%s has %s, newest is %s", r.Branch, r.Matrix[len(r.Matrix)-1], r.Newest))
		}
		return e
	}
	return nil
}

// rows are the branches that are asked for, those first that are still looked after.
func (o driversOptions) rows(t *releases.Table, m *matrix.Matrix, at time.Time) ([]branchRow, error) {
	var wanted []string
	var errs []error
	for _, name := range o.branches {
		b, ok := t.Branch(name)
		if !ok {
			var known []string
			for _, b := range t.Branches {
				known = append(known, b.Name)
			}
			err := fmt.Errorf("no branch %q is known", name)
			if near := distros.Nearest(strings.ToUpper(name), known); len(near) > 0 {
				err = fmt.Errorf("%w: did you mean %s?", err, strings.Join(near, " or "))
			}
			errs = append(errs, err)
		}
		wanted = append(wanted, b.Name)
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	var rows []branchRow
	for _, b := range slices.Backward(t.Branches) {
		r := newBranchRow(b, m, at)
		if wantedIn(wanted, b.Name) && (r.Lags || !o.lagging) {
			rows = append(rows, r)
		}
	}
	return rows, nil
}

func newBranchRow(b releases.Branch, m *matrix.Matrix, at time.Time) branchRow {
	r := branchRow{
		Branch: b.Name, Kind: string(b.Kind), EndOfLife: b.End, Over: b.Over(at), CUDA: b.CUDA, Kernel: b.Kernel,
		Matrix: []string{}, Releases: []releaseRow{},
	}
	for _, d := range m.Drivers {
		if d.Branch == b.Name {
			r.Matrix = append(r.Matrix, d.Version)
		}
	}
	slices.SortFunc(r.Matrix, releases.Compare)
	for _, known := range b.Releases {
		row := releaseRow{
			Version: known.Version, Date: known.Date, Kernel: known.Kernel, Notes: known.Notes, Archs: []string{}, Checked: []string{},
			InMatrix: slices.ContainsFunc(r.Matrix, func(v string) bool { return releases.Compare(v, known.Version) == 0 }),
		}
		for _, a := range known.Archives {
			row.Archs = append(row.Archs, a.Arch)
			if a.SHA256 != "" {
				row.Checked = append(row.Checked, a.Arch)
			}
		}
		r.Releases = append(r.Releases, row)
	}
	if newest, ok := b.Newest(); ok {
		r.Newest, r.Date = newest.Version, newest.Date
		r.Lags = len(r.Matrix) > 0 && releases.Compare(r.Matrix[len(r.Matrix)-1], newest.Version) < 0
	}
	return r
}

// end is the end of life for people.
func (r branchRow) end() string {
	if r.Over && r.EndOfLife != releases.EndOver {
		return "over " + r.EndOfLife
	}
	return cmp.Or(r.EndOfLife, "-")
}
