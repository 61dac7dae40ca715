package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/driver-container/driver-container/cmd/driver-build/flags"
	"github.com/driver-container/driver-container/cmd/driver-build/session"
	"github.com/driver-container/driver-container/images"
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
	update  images.LockUpdate
	file    string
	check   bool
}

func newLockCmd(a *session.App) *cobra.Command {
	var o lockFlags
	cmd := &cobra.Command{
		Use: "lock [--update [TARGET...]]", Short: "Pin what images are made from in matrix.lock", Long: lockLong, Example: lockExample,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 && !o.update.Again {
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
	f.StringVar(&o.file, "lock", "", "`FILE` to write (default: matrix.lock beside matrix.yaml)")
	f.BoolVar(
		&o.update.Again,
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
	if o.file == "none" {
		return session.Usagef("--lock none is for builds: give a file")
	}
	o.request.Targets.SelectAllByDefault()
	m, err := o.request.Targets.Load(a)
	if err != nil {
		return err
	}
	u := o.update
	u.Matrix = m
	u.Request, err = o.request.Images(a, m)
	if err != nil {
		return err
	}
	// a lock is for images of every profile, time and compression
	u.Request.Options.Profile = recipe.Full
	u.Request.Options.Epoch = 0
	file := lockfile.Path(o.file, o.request.Targets.Matrix.File)
	if !o.check {
		err = outfile.Check(file)
		if err != nil {
			return session.Usagef("--lock: %w", err)
		}
	}
	current, err := u.ReadLock(file)
	if err != nil {
		return err
	}
	var now *lockfile.Lock
	err = a.Connect(
		ctx,
		m.Defaults.Mirrors,
		nil,
		func(ctx context.Context, s *session.Session) (err error) {
			now, err = s.Builder.UpdateLock(ctx, u)
			return err
		},
	)
	if err != nil {
		return err
	}
	changes := u.Request.Lock.Changes(now)
	for _, line := range changes {
		fmt.Fprintln(a.Stdout, line)
	}
	switch {
	case o.check && len(changes) > 0:
		return fmt.Errorf("%s is not up to date: %w", file, images.ErrSomeFailed)
	case o.check || current && len(changes) == 0:
		return nil
	}
	return now.Write(ctx, file)
}
