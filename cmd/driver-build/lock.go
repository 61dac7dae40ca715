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

func newLockCmd(a *session.App) *cobra.Command {
	var o flags.Common
	var u batch.LockUpdate
	var check bool
	cmd := &cobra.Command{
		Use: "lock [--update [TARGET...]]", Short: "Pin what images are made from in matrix.lock", Long: lockLong, Example: lockExample,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 && !u.Update {
				return session.Usagef(
					"unexpected argument %q: targets follow --update; select others with --os and --driver",
					args[0],
				)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			u.Names = args
			return lock(cmd.Context(), a, &o, &u, check)
		},
	}
	f := cmd.Flags()
	o.AddTo(f, flags.Targets, flags.Sources, flags.Kernels)
	f.StringVar(&u.File, "lock", "", "`FILE` to write (default: matrix.lock beside matrix.yaml)")
	f.BoolVar(
		&u.Update,
		"update",
		false,
		"resolve again: everything selected, or the TARGETs given",
	)
	f.BoolVar(
		&check,
		"check",
		false,
		"write nothing; print what would change, with exit code 3 when anything would",
	)
	return cmd
}

func lock(
	ctx context.Context,
	a *session.App,
	o *flags.Common,
	u *batch.LockUpdate,
	check bool,
) error {
	if u.File == "none" {
		return session.Usagef("--lock none is for builds: give a file")
	}
	o.Whole()
	m, err := o.Choose(a)
	if err != nil {
		return err
	}
	o.Plan = recipe.Options{Base: o.Sources.Base, Mirror: o.Sources.Mirror}
	u.Batch = o.Batch
	u.Matrix = m
	u.File = batch.LockPath(u.File, o.Given.MatrixFile)
	if !check {
		if err := outfile.Check(u.File); err != nil {
			return session.Usagef("--lock: %w", err)
		}
	}
	if err := u.Read(); err != nil {
		return err
	}
	var now *lockfile.Lock
	if err := a.With(ctx, m.Defaults.Mirrors, nil, func(ctx context.Context, s *session.Session) (err error) {
		now, err = u.Resolve(ctx, s.Builder)
		return err
	}); err != nil {
		return err
	}
	changes := u.Changes(now)
	for _, line := range changes {
		fmt.Fprintln(a.Stdout, line)
	}
	switch {
	case !check:
		return u.Write(ctx, now, changes)
	case len(changes) > 0:
		return fmt.Errorf("%s is not up to date: %w", u.File, batch.ErrSomeFailed)
	}
	return nil
}
