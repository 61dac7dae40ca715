package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/driver-container/driver-container/cmd/driver-build/flags"
	"github.com/driver-container/driver-container/cmd/driver-build/session"
	"github.com/driver-container/driver-container/images/batch"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/status"
)

const checkLong = `Ask, for each pair of the matrix, whether it could be built now: whether the base is to be had, the driver's archive is there
with the size that the matrix has, and so are those of its components, the package repositories have compiler and headers for the current kernel, and what was locked is
still there; and whether the registry has the image. With --kernel-from, headers and compiler are those of images, and the image is the one with
modules for their newest kernel. Nothing is downloaded but bases and indexes. Exit code 3 when a pair is broken;
an image that is missing or out of date breaks nothing. Without --os and --driver the whole matrix is meant.`

// checkFlags are the flags of the command.
type checkFlags struct {
	selection                flags.Selection
	programs                 flags.Programs
	sources                  flags.Sources
	repository, format, lock string
	kernels                  batch.Kernels // only the images that have them
	advisories               flags.Advisories
}

func newCheckCmd(a *session.App) *cobra.Command {
	var o checkFlags
	cmd := &cobra.Command{
		Use: "check", Short: "Check that the pairs of the matrix can be built", Long: checkLong, Args: session.NoArgs,
		Example: "  driver-build check --repository registry.example.com/gpu/driver\n  driver-build check --os ubuntu22.04 -o json",
		RunE:    func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context(), a) },
	}
	f := cmd.Flags()
	o.selection.AddTo(f)
	flags.Repository(f, &o.repository)
	o.sources.AddTo(f)
	flags.KernelFrom(f, &o.kernels.From)
	o.programs.AddTo(f)
	flags.Format(f, &o.format)
	flags.Lock(f, &o.lock)
	o.advisories.AddTo(f)
	return cmd
}

func (o *checkFlags) run(ctx context.Context, a *session.App) error {
	if err := errors.Join(flags.CheckFormat(o.format), o.advisories.Check()); err != nil {
		return err
	}
	m, err := o.selection.Load(a)
	if err != nil {
		return err
	}
	pairs, err := batch.Pairs(m, o.selection.Selection)
	if err != nil {
		return err
	}
	batch.JudgePairs(m, pairs, o.advisories.Day, nil)
	b := batch.Batch{
		Selection: o.selection.Selection, Targets: batch.Targets(pairs), Repository: a.Repository(o.repository, m.Defaults), Kernels: o.kernels,
		Plan: recipe.Options{Base: o.sources.Base, Mirror: o.sources.Mirror}, Given: batch.Given{MatrixFile: o.selection.File, LockFile: o.lock},
	}
	if err := o.kernels.Check(); err != nil {
		return session.Usage(err)
	}
	if err := errors.Join(o.sources.Check(), batch.CheckRepository(b.Repository), b.OpenLock()); err != nil {
		return err
	}
	if b.Plan.Profile, err = recipe.ParseProfile(m.Defaults.Profile); err != nil {
		return session.Usage(err)
	}
	var rows []status.Checked
	programs := a.Programs(ctx, o.programs.Entrypoint, o.programs.AllowMissing)
	if o.programs.Entrypoint != "" {
		if _, err := batch.CheckPrograms(programs, b.Targets); err != nil {
			return err
		}
	}
	if err := a.With(ctx, m.Defaults.Mirrors, programs, func(ctx context.Context, s *session.Session) (err error) {
		rows, err = status.Check(ctx, &b, s.Builder, pairs)
		return err
	}); err != nil {
		return err
	}
	if err := printChecked(a, rows, o.format); err != nil {
		return err
	}
	denied := o.advisories.Report(a, b.Targets)
	if n := len(slices.DeleteFunc(rows, func(r status.Checked) bool { return !r.Broken })); n > 0 {
		return errors.Join(fmt.Errorf("%d of %d pairs cannot be built: %w", n, len(b.Targets), batch.ErrSomeFailed), denied)
	}
	return denied
}

func printChecked(a *session.App, rows []status.Checked, format string) error {
	if format == "json" {
		return a.JSON(session.NewList(rows))
	}
	w := tabwriter.NewWriter(a.Stdout, 0, 8, 2, ' ', 0)
	groups := sharedCauses(rows)
	fmt.Fprintln(w, "OS\tDRIVER\tARCH\tBASE\tARCHIVE\tCOMPONENTS\tHEADERS\tLOCK\tIMAGE\tNOTE")
	for _, r := range rows {
		if r.Excluded != "" {
			fmt.Fprintf(w, "%s\t%s\t%s\t-\t-\t-\t-\t-\t-\texcluded: %s\n", r.System, r.Driver, r.Arch, r.Excluded)
			continue
		}
		image := "-"
		if r.Image != nil {
			image = string(r.Image.State)
		}
		fmt.Fprintln(w, strings.Join([]string{
			r.System, r.Driver, r.Arch, verdict(r.Base), verdict(r.Archive), verdict(r.Components), verdict(r.Headers), verdict(r.Lock), image, checkNote(r, groups),
		}, "\t"))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for n, g := range groups {
		fmt.Fprintf(a.Stdout, "cause %d: %s\n", n+1, g)
	}
	return nil
}

// sharedCauses are those that hit several pairs.
func sharedCauses(rows []status.Checked) []batch.Cause {
	var all []batch.Cause
	for _, r := range rows {
		var seen []string // of this pair
		for _, v := range r.Verdicts() {
			if v.Cause != "" && !slices.Contains(seen, v.Cause) {
				seen = append(seen, v.Cause)
				all = batch.AddCause(all, v.Cause, r.Tag+" "+r.Arch)
			}
		}
	}
	return slices.DeleteFunc(all, func(g batch.Cause) bool { return len(g.Targets) < 2 })
}

func verdict(v *status.Verdict) string {
	switch {
	case v == nil || v.State == status.VerdictNone:
		return "-"
	case v.State == status.VerdictFailed:
		return "FAILED"
	}
	return v.State
}

// checkNote gives the reasons of the states, for people. Those that several pairs share are below the table.
func checkNote(r status.Checked, shared []batch.Cause) string {
	var notes []string
	for _, v := range r.Verdicts() {
		if v.State == status.VerdictOK || v.Detail == "" {
			continue
		}
		text := v.Detail
		if n := slices.IndexFunc(shared, func(g batch.Cause) bool { return g.Text == v.Cause }); n >= 0 {
			text = fmt.Sprintf("cause %d", n+1)
		}
		if !slices.Contains(notes, text) {
			notes = append(notes, text)
		}
	}
	if r.Headers != nil && r.Headers.State == status.VerdictOK {
		notes = append(notes, r.Headers.Detail)
	}
	if r.Image != nil && r.Image.State != status.Missing && r.Image.Why != "" {
		notes = append(notes, "image: "+r.Image.Why)
	}
	return strings.Join(notes, "; ")
}
