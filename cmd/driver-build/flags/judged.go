package flags

import (
	"slices"
	"time"

	"github.com/spf13/pflag"

	"github.com/driver-container/driver-container/cmd/driver-build/session"
	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/images/batch"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/releases"
)

// Advisories are the flags about what is known of drivers.
type Advisories struct {
	Day   time.Time // that ends of life are judged on, after Check
	deny  []string
	at    string
	kinds []string
}

// AddTo declares --deny and --at.
func (o *Advisories) AddTo(f *pflag.FlagSet) {
	f.StringSliceVar(&o.deny, "deny", nil, "KIND of warning that makes the command fail with exit code 3: end-of-life, known-bad, kernel-broken or all (repeatable)")
	f.StringVar(&o.at, "at", "", "YYYY-MM-DD: judge ends of life on that day (default today)")
}

// Check reads the flags.
func (o *Advisories) Check() error { return o.CheckOn(time.Now()) }

// CheckOn is Check with another day than today without --at.
func (o *Advisories) CheckOn(today time.Time) (err error) {
	if o.kinds, err = releases.ParseWarningKinds(o.deny); err != nil {
		return session.Usagef("--deny: %w", err)
	}
	o.Day = today
	if o.at != "" {
		if o.Day, err = time.Parse(time.DateOnly, o.at); err != nil {
			return session.Usagef("--at %q is no day, such as 2026-06-30", o.at)
		}
	}
	return nil
}

// Report prints what is known of the drivers of targets on stderr. The error has what --deny denies.
func (o *Advisories) Report(a *session.App, targets []matrix.Target) error {
	j := batch.Judge(targets, o.Day)
	return o.report(a, &j, j.Texts())
}

// report prints warnings and notices, with --progress quiet only where they are denied.
func (o *Advisories) report(a *session.App, j *batch.Judgement, warnings []string) error {
	denied := j.Deny(o.kinds)
	if a.Quiet() && denied == nil {
		return nil
	}
	a.Warnings(warnings...)
	a.Notes(j.Notices...)
	return denied
}

// ReportReleases is Report for a command that has shown the kernels that break drivers.
func (o *Advisories) ReportReleases(a *session.App, targets []matrix.Target) error {
	j := batch.Judge(targets, o.Day)
	return o.report(a, &j, j.Texts(driverinfo.KernelBroken))
}

// ReportDenied is ReportReleases for a command that has shown all that is known: without --deny it prints
// nothing.
func (o *Advisories) ReportDenied(a *session.App, targets []matrix.Target) error {
	if len(o.kinds) == 0 {
		return nil
	}
	return o.ReportReleases(a, targets)
}

// CUDA is the flag about a release of CUDA.
type CUDA struct{ text string }

// AddTo declares --cuda.
func (o *CUDA) AddTo(f *pflag.FlagSet) {
	f.StringVar(&o.text, "cuda", "", "MAJOR.MINOR of CUDA: say how each driver runs it; plan and fleet leave out drivers that do not")
}

// Release returns the release that the flag names; nil without the flag.
func (o *CUDA) Release(m *matrix.Matrix) (*releases.CUDA, error) {
	if o.text == "" {
		return nil, nil //nolint:nilnil // no flag, no release
	}
	r, err := releases.RequireCUDA(m, o.text)
	if err != nil {
		return nil, session.Usagef("--cuda: %w", err)
	}
	return &r, nil
}

// Limit removes the targets whose drivers do not run the release.
func (o *CUDA) Limit(m *matrix.Matrix, b *batch.Batch) error {
	r, err := o.Release(m)
	if err != nil || r == nil {
		return err
	}
	b.Targets = slices.DeleteFunc(b.Targets, func(t matrix.Target) bool { return batch.RunsCUDA(t.Driver, *r).Support == releases.CUDANone })
	if len(b.Targets) == 0 {
		return session.Usagef("--cuda %s: no driver of the selection runs it: it needs %s or newer; driver-build list --cuda %s shows all", r.Version, r.Floor, r.Version)
	}
	return nil
}
