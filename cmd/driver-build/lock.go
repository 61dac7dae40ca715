package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/driver-container/driver-container/cmd/driver-build/flags"
	"github.com/driver-container/driver-container/cmd/driver-build/session"
	"github.com/driver-container/driver-container/images/batch"
	"github.com/driver-container/driver-container/images/lockfile"
	"github.com/driver-container/driver-container/images/outfile"
	"github.com/driver-container/driver-container/images/recipe"
)

const lockLong = `Resolve everything that images are made from (digests of bases, packages, compilers, headers) and write it to matrix.lock,
beside the matrix, to be kept in version control. From then on builds use it: they ask no repository and no tag, make the same
image next year, and refuse what no longer fits the matrix.

Without --update, what is missing or no longer fits the matrix is resolved, the rest stays as it is, and what the matrix no longer
has is dropped. With --update everything selected is resolved again, or, where TARGETs are given (a tag, or TAG/ARCH), only those.
Without --os and --driver the whole matrix is meant.`

const lockExample = `  driver-build lock
  driver-build lock --os ubuntu22.04 --driver 580.178.04 --kernel latest
  driver-build lock --update 580.178.04-ubuntu22.04
  driver-build lock --check            # exit code 3 if it is not complete
  driver-build lock --check --update   # the same if anything is newer`

// lockFlags are the flags of the command lock.
type lockFlags struct {
	request flags.Request
	update  batch.LockUpdate
	check   bool
}

func newLockCmd(a *session.App) *cobra.Command {
	var o lockFlags
	cmd := &cobra.Command{
		Use: "lock [--update [TARGET...]]", Short: "Pin what images are made from in matrix.lock", Long: lockLong, Example: lockExample,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 && !o.update.Update {
				return session.Usagef(
					"unexpected argument %q: targets follow --update; select others with --os and --driver",
					args[0],
				)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			o.update.Names = args
			return o.run(cmd.Context(), a)
		},
	}
	f := cmd.Flags()
	o.request.Targets.AddTo(f)
	o.request.Sources.AddTo(f)
	o.request.Kernels.AddTo(f)
	f.StringVar(
		&o.update.File,
		"lock",
		"",
		"`FILE` to write (default: matrix.lock beside matrix.yaml)",
	)
	f.BoolVar(
		&o.update.Update,
		"update",
		false,
		"resolve again: everything selected, or the TARGETs given",
	)
	f.BoolVar(
		&o.check,
		"check",
		false,
		"write nothing; print what would change, with exit code 3 when anything would",
	)
	return cmd
}

func (o *lockFlags) run(ctx context.Context, a *session.App) error {
	u := &o.update
	if u.File == "none" {
		return session.Usagef("--lock none is for builds: give a file")
	}
	o.request.Targets.SelectAllByDefault()
	m, err := o.request.Targets.Load(a)
	if err != nil {
		return err
	}
	b, err := o.request.Batch(a, m.Defaults)
	if err != nil {
		return err
	}
	err = b.Select(m)
	if err != nil {
		return err
	}
	b.Plan = recipe.Options{Base: b.Plan.Base, Mirror: b.Plan.Mirror}
	u.Batch = *b
	u.Matrix = m
	u.File = batch.LockPath(u.File, b.Given.MatrixFile)
	if !o.check {
		err = outfile.Check(u.File)
		if err != nil {
			return session.Usagef("--lock: %w", err)
		}
	}
	err = u.Read()
	if err != nil {
		return err
	}
	var now *lockfile.Lock
	err = a.Connect(
		ctx,
		m.Defaults.Mirrors,
		nil,
		func(ctx context.Context, s *session.Session) (err error) {
			now, err = u.Resolve(ctx, s.Builder)
			return err
		},
	)
	if err != nil {
		return err
	}
	changes := u.Changes(now)
	for _, line := range changes {
		fmt.Fprintln(a.Stdout, line)
	}
	switch {
	case !o.check:
		return u.Write(ctx, now, changes)
	case len(changes) > 0:
		return fmt.Errorf("%s is not up to date: %w", u.File, batch.ErrSomeFailed)
	}
	return nil
}
