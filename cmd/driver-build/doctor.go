package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/driver-container/driver-container/cmd/driver-build/doctor"
	"github.com/driver-container/driver-container/cmd/driver-build/flags"
	"github.com/driver-container/driver-container/cmd/driver-build/session"
	"github.com/driver-container/driver-container/images/batch"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/programs"
)

const doctorLong = `Ask what of a build works from here, with a line for each question and what to do about a fault: the cache, the programs for images,
the registries of the bases through their mirrors, whether --repository accepts pushes, and what compiles for --kernel. No base, package or
driver is downloaded, and no question takes longer than 20 seconds.

Exit code 3 if something is at fault. A warning is about some builds only. driver-build check asks whether each pair of the matrix
can be built, with its package repositories and the driver's archive.`

// doctorFlags are the flags of the command.
type doctorFlags struct {
	selection          flags.Selection
	repository, format string
	runners            flags.Runners
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
	m, err := o.selection.Load(a)
	if err != nil {
		return err
	}
	if _, err := m.Select(matrix.Selection{Systems: o.selection.Systems, All: true}); err != nil {
		return session.Usage(err)
	}
	repository := a.Repository(o.repository, m.Defaults)
	if err := batch.CheckRepository(repository); err != nil {
		return err
	}
	cache, err := a.CacheDir()
	if err != nil {
		return err
	}
	found := doctor.Ask(ctx, o.local(ctx, a, cache))
	err = a.With(ctx, m.Defaults.Mirrors, nil, func(ctx context.Context, s *session.Session) error {
		var questions []doctor.Question
		if !a.Offline {
			questions = doctor.Bases(s.Registry, slices.DeleteFunc(slices.Clone(m.Systems), func(system matrix.System) bool {
				return len(o.selection.Systems) > 0 && !slices.Contains(o.selection.Systems, system.ID)
			}))
		}
		if repository != "" {
			questions = append(questions, doctor.Repository(s.Registry, repository))
		}
		found = append(found, doctor.Ask(ctx, questions)...)
		return nil
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		found = append(found, doctor.Finding{Question: "connection", State: doctor.Fault, Detail: err.Error()})
	}
	return o.report(a, found)
}

// local are the questions about this machine.
func (o *doctorFlags) local(ctx context.Context, a *session.App, cache string) []doctor.Question {
	all := []doctor.Question{doctor.Cache(cache), {
		Name: "compile", Optional: !o.runners.Named(), Fix: "make one of the two work if images with --kernel are built here; other images need neither",
		Ask: func(ctx context.Context) (string, error) { return o.runners.Try(ctx, cache) },
	}}
	find := a.PresentPrograms(ctx, "", false)
	for _, arch := range o.selection.Archs {
		all = append(all, doctor.Question{
			Name: "programs " + arch, Fix: "take driver-build and its programs from one release or one build, in one folder",
			Ask: func(context.Context) (string, error) {
				var names []string
				found, err := find(arch)
				for _, b := range found {
					names = append(names, b.Name)
				}
				if errors.Is(err, programs.ErrNotMade) {
					return err.Error(), nil // a build makes them
				}
				return strings.Join(names, ", "), err
			},
		})
	}
	return all
}

// report prints the findings; one that is a fault is an error.
func (o *doctorFlags) report(a *session.App, found []doctor.Finding) error {
	faults := 0
	w := tabwriter.NewWriter(a.Stdout, 0, 8, 2, ' ', 0)
	for _, f := range found {
		state, line := f.State, f.Detail
		if f.State == doctor.Fault {
			faults++
			state = "FAULT"
		}
		if f.Fix != "" {
			line += "; to do: " + f.Fix
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", state, f.Question, line)
	}
	write := w.Flush
	if o.format == "json" {
		write = func() error { return a.JSON(session.NewList(found)) }
	}
	if err := write(); err != nil {
		return err
	}
	if faults > 0 {
		return fmt.Errorf("%d of %d questions found a fault: %w", faults, len(found), batch.ErrSomeFailed)
	}
	return nil
}
