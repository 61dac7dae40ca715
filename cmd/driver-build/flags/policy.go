package flags

import (
	"fmt"
	"slices"

	"github.com/spf13/pflag"

	"github.com/driver-container/driver-container/cmd/driver-build/session"
	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/images/csaf"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/releases"
	"github.com/driver-container/driver-container/images/status"
)

// Advisories says by what drivers are judged.
type Advisories struct {
	paths []string // of bulletins in CSAF: files and folders

	known *releases.VulnerabilityTable // nil: not read yet
}

// AddTo declares --advisories.
func (v *Advisories) AddTo(f *pflag.FlagSet) {
	session.Rare(f, func(f *pflag.FlagSet) {
		f.StringSliceVar(
			&v.paths,
			"advisories",
			nil,
			"`FILE` or folder with newer security bulletins of NVIDIA in CSAF 2.0 (repeatable)",
		)
	})
}

// Advisor returns what judges drivers. It reads the bulletins once, and prints what was left out.
func (v *Advisories) Advisor(a *session.App) (releases.Advisor, error) {
	advisor := releases.Advisor{Day: a.Today(), Known: v.known}
	if v.known != nil {
		return advisor, nil
	}
	known := releases.BuiltinVulnerabilities()
	for _, path := range v.paths {
		fixes, notes, err := csaf.Read(path)
		if err != nil {
			return advisor, fmt.Errorf("--advisories: %w", err)
		}
		a.Notes(notes...)
		known, err = known.With(fixes)
		if err != nil {
			return advisor, failure.Of(failure.Content, fmt.Errorf("--advisories %s: %w", path, err))
		}
	}
	v.known = known
	advisor.Known = known
	return advisor, nil
}

// AdvisorNow is Advisor on the day of [session.App.Now], for output that SOURCE_DATE_EPOCH fixes.
func (v *Advisories) AdvisorNow(a *session.App) (releases.Advisor, error) {
	advisor, err := v.Advisor(a)
	if err != nil {
		return advisor, err
	}
	advisor.Day, err = a.Now()
	return advisor, err
}

// Policy says which warnings make a command fail.
type Policy struct {
	Advisories

	Deny []string // kinds of warnings, or all
}

// AddTo declares --deny and --advisories.
func (p *Policy) AddTo(f *pflag.FlagSet) {
	p.Advisories.AddTo(f)
	f.Var(
		session.Slice(&p.Deny, session.Valid(releases.CheckWarningKind)),
		"deny",
		"`KIND` of warning that makes the command fail with exit code 3: end-of-life, known-bad, "+
			"kernel-broken, vulnerable (a driver with known CVEs), vulnerable=SCORE (of this CVSS score "+
			"or a higher one) or all (repeatable)",
	)
}

// Report prints what is known of the drivers of targets on stderr, and returns the error of --deny.
// kernels says that kernels that break a driver are printed too. With --progress quiet nothing is
// printed unless there is an error.
func (p *Policy) Report(a *session.App, targets []matrix.Target, kernels bool) error {
	kinds := p.Deny
	if slices.Contains(kinds, "all") {
		kinds = releases.WarningKinds()
	}
	advisor, err := p.Advisor(a)
	if err != nil {
		return err
	}
	warnings := status.WarningsOf(targets, advisor)
	denied := warnings.Deny(kinds)
	if a.Quiet() && denied == nil {
		return nil
	}
	var without []string
	if !kernels {
		without = []string{driverinfo.KernelBroken}
	}
	a.Warnings(warnings.Texts(without...)...)
	a.Notes(warnings.Notices...)
	return denied
}

// WarnOfFabric prints a warning for each driver that --driver names and that has no fabric manager.
func WarnOfFabric(a *session.App, targets []matrix.Target, s matrix.Selection) {
	if !a.Quiet() {
		a.Warnings(status.WithoutFabric(targets, s)...)
	}
}

// CUDA is a release of CUDA that drivers should run.
type CUDA struct{ Version string }

// AddTo declares --cuda.
func (c *CUDA) AddTo(f *pflag.FlagSet) {
	f.StringVar(
		&c.Version,
		"cuda",
		"",
		"`MAJOR.MINOR` of CUDA: say how each driver runs it; plan and fleet leave out drivers that do "+
			"not",
	)
}

// Find returns what is known of the release, nil without --cuda.
func (c *CUDA) Find(a *session.App, m *matrix.Matrix) (*releases.CUDA, error) {
	if c.Version == "" {
		return nil, nil //nolint:nilnil // no release is asked for
	}
	release, err := releases.RequireCUDA(m, c.Version)
	if err != nil {
		return nil, session.Usagef("--cuda: %w", err)
	}
	a.Note(release.Lacking(m))
	return &release, nil
}

// Releases says where NVIDIA's list of releases is read.
type Releases struct{ Location string } // file, URL or none; "": NVIDIA's own

// AddTo declares --releases.
func (r *Releases) AddTo(f *pflag.FlagSet) {
	f.StringVar(
		&r.Location,
		"releases",
		"",
		"`FILE` or URL of a releases.json as NVIDIA publishes it, or none: the built-in table alone "+
			"(default NVIDIA's own, where it can be reached)",
	)
}
