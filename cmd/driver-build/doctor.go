package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/driver-container/driver-container/cmd/driver-build/doctor"
	"github.com/driver-container/driver-container/cmd/driver-build/flags"
	"github.com/driver-container/driver-container/cmd/driver-build/session"
	"github.com/driver-container/driver-container/images/batch"
	"github.com/driver-container/driver-container/images/matrix"
)

const doctorLong = `Ask what of a build works from here, with a line for each question and what to do about a fault: the cache, memory, the clock, the
programs for images, matrix and lock, the registries of the bases and their mirrors, whether --repository accepts pushes, and what compiles for
--kernel. No base, package or driver is downloaded, and no question takes longer than 20 seconds.

Exit code 3 if something is at fault. A warning is about some builds only. driver-build check asks whether each pair of the matrix
can be built, with its package repositories and the driver's archive.`

// doctorLimit bounds each question.
const doctorLimit = 20 * time.Second

// doctorFlags are the flags of the command.
type doctorFlags struct {
	selection                flags.Selection
	programs                 flags.Programs
	repository, format, lock string
	runners                  flags.Runners
}

func newDoctorCmd(a *session.App) *cobra.Command {
	var o doctorFlags
	cmd := &cobra.Command{
		Use: "doctor", Short: "Ask what works from this machine", Long: doctorLong, Args: session.NoArgs,
		Example: "  driver-build doctor\n  driver-build doctor --repository registry.example.com/gpu/driver --builder tcp://buildkitd:1234 -o json",
		RunE:    func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context(), a) },
	}
	f := cmd.Flags()
	f.StringSliceVar(&o.selection.Systems, "os", nil, "only the bases of these systems (repeatable; default: those of the matrix)")
	f.StringSliceVar(&o.selection.Archs, "arch", nil, "architecture of the images: amd64 or arm64 (repeatable; default amd64)")
	o.selection.AddMatrix(f)
	f.StringVar(&o.repository, "repository", "", "REGISTRY/PATH that images are pushed to (default: $DRIVER_BUILD_REPOSITORY, else the matrix's)")
	flags.Lock(f, &o.lock)
	o.programs.AddTo(f)
	o.runners.AddTo(f)
	flags.Format(f, &o.format)
	return cmd
}

func (o *doctorFlags) run(ctx context.Context, a *session.App) error {
	if err := flags.CheckFormat(o.format); err != nil {
		return err
	}
	if err := o.runners.Check(a.Getenv); err != nil {
		return session.Usage(err)
	}
	if len(o.selection.Archs) == 0 {
		o.selection.Archs = []string{"amd64"}
	}
	for _, arch := range o.selection.Archs {
		if err := matrix.CheckArch(arch); err != nil {
			return session.Usagef("--arch: %w", err)
		}
	}
	m, broken := o.selection.Load(a)
	switch {
	case broken != nil && o.selection.File != "":
		return broken // a value of a flag, as in every command
	case broken != nil:
		m = &matrix.Matrix{} // the bases are those of no system
	default:
		if _, err := m.Select(matrix.Selection{Systems: o.selection.Systems, All: true}); err != nil {
			return session.Usage(err)
		}
	}
	if err := o.checkFiles(ctx, a); err != nil {
		return err
	}
	repository := a.Repository(o.repository, m.Defaults)
	if err := batch.CheckRepository(repository); err != nil {
		return err
	}
	cache, err := a.CacheDir()
	if err != nil {
		return err
	}
	found := doctor.Ask(ctx, doctorLimit, o.local(ctx, a, cache, m, broken))
	err = a.With(ctx, m.Defaults.Mirrors, nil, func(ctx context.Context, s *session.Session) error {
		mirrors, err := a.Mirrors(m.Defaults.Mirrors)
		if err != nil {
			return err
		}
		found = append(found, doctor.Ask(ctx, doctorLimit, o.remote(a, s, m, mirrors, repository))...)
		return ctx.Err()
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		found = append(found, doctor.Finding{Question: "connection", State: doctor.Fault, Detail: err.Error()})
	}
	if err := printFindings(a, found, o.format); err != nil {
		return err
	}
	if n := doctor.Faults(found); n > 0 {
		return fmt.Errorf("%d of %d questions found a fault: %w", n, len(found), batch.ErrSomeFailed)
	}
	return nil
}

// checkFiles refuses files that the user named and that are wrong, as every command does. Files in their
// usual places are questions.
func (o *doctorFlags) checkFiles(ctx context.Context, a *session.App) error {
	if o.lock != "" {
		b := batch.Batch{Given: batch.Given{LockFile: o.lock}}
		if err := b.OpenLock(); err != nil {
			return err
		}
	}
	if o.programs.Entrypoint == "" {
		return nil
	}
	var targets []matrix.Target
	for _, arch := range o.selection.Archs {
		targets = append(targets, matrix.Target{Arch: arch})
	}
	_, err := batch.CheckPrograms(a.PresentPrograms(ctx, o.programs.Entrypoint, o.programs.AllowMissing), targets)
	return err
}

// local are the questions about this machine. broken is what is wrong with the matrix.
func (o *doctorFlags) local(ctx context.Context, a *session.App, cache string, m *matrix.Matrix, broken error) []doctor.Question {
	all := []doctor.Question{doctor.Cache(cache), doctor.Memory(os.DirFS("/")), doctor.Clock(time.Now(), session.BuildTime())}
	for _, arch := range o.selection.Archs {
		all = append(all, doctor.Programs(a.PresentPrograms(ctx, o.programs.Entrypoint, o.programs.AllowMissing), arch))
	}
	compile := func(ctx context.Context) (string, error) { return o.runners.Try(ctx, cache) }
	return append(all, doctor.Matrix(m, broken),
		doctor.Lock(batch.Batch{Given: batch.Given{MatrixFile: o.selection.File, LockFile: o.lock}}),
		doctor.Compile(compile, o.runners.Named()))
}

// remote are the questions about registries.
func (o *doctorFlags) remote(a *session.App, s *session.Session, m *matrix.Matrix, mirrors map[string][]string, repository string) []doctor.Question {
	systems := slices.DeleteFunc(slices.Clone(m.Systems), func(sys matrix.System) bool {
		return len(o.selection.Systems) > 0 && !slices.Contains(o.selection.Systems, sys.ID)
	})
	skip := ""
	if a.Offline {
		skip = "--offline: builds use the bases in the cache"
	}
	return append(slices.Concat(doctor.Bases(s.Registry, systems, skip), doctor.Mirrors(s.Registry, mirrors, systems, skip)),
		doctor.Repository(s.Registry, repository))
}

func printFindings(a *session.App, all []doctor.Finding, format string) error {
	if format == "json" {
		return a.JSON(session.NewList(all))
	}
	w := tabwriter.NewWriter(a.Stdout, 0, 8, 2, ' ', 0)
	for _, f := range all {
		state := string(f.State)
		if f.State == doctor.Fault {
			state = "FAULT"
		}
		line := f.Detail
		if f.Fix != "" {
			line += "; to do: " + f.Fix
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", state, f.Question, line)
	}
	return w.Flush()
}
