//go:build linux

// Package chroot runs steps on this machine: it unpacks the layers into a private folder, and the
// command gets that folder as its root, in namespaces of its own, without network, devices,
// capabilities or new privileges. It works only on Linux and only for the architecture of the
// machine.
//
// The process that sets up the namespaces is this same program, started again (Init). It is process
// 1 of the step's pid namespace and dies with the program that started it, so that nothing keeps
// running or stays mounted, whatever happens.
//
// Root runs steps as root. Other users run them in a user namespace in which their own id is 0. No
// further ids are mapped: the runner does not unpack owners of files, and a command without
// capabilities cannot change ids, so a range of ids would only leave files that the user cannot
// remove. This is not a sandbox for hostile programs of unknown origin, because the kernel is
// shared.
package chroot

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/images/runner"
	"github.com/driver-container/driver-container/images/workdir"
)

// Runner executes steps on this machine. It is safe for concurrent use.
type Runner struct{ work string }

var _ runner.Runner = (*Runner)(nil)

// folderPrefix begins the names of the folders of steps.
const folderPrefix = "step-"

// New prepares the folder for roots, and removes folders of dead owners from it. Each running step
// needs a gigabyte or so there, which is freed at its end. New does not test whether this machine
// lets it run anything: see Supported.
func New(work string) (*Runner, error) {
	work, err := filepath.Abs(work)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(work, 0o755); err != nil {
		return nil, fmt.Errorf("make the folder for the roots of steps: %w", err)
	}
	if err := workdir.Sweep(work, folderPrefix); err != nil {
		return nil, fmt.Errorf("remove what an earlier run left in %s: %w", work, err)
	}
	return &Runner{work}, nil
}

// String is "chroot".
func (r *Runner) String() string { return "chroot" }

// Supported returns nil if this user can run steps on this machine, or else the reason. It sets up
// an empty root like that of a step and removes it. The error wraps runner.ErrUnavailable.
func Supported() (err error) {
	work, err := os.MkdirTemp("", "chroot-probe-")
	if err != nil {
		return fmt.Errorf("%w: make a folder to try it in: %w", runner.ErrUnavailable, err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	for _, d := range mountPoints {
		if err := os.Mkdir(filepath.Join(work, d), 0o755); err != nil {
			return fmt.Errorf("%w: %w", runner.ErrUnavailable, err)
		}
	}
	_, err = runInner(context.Background(), config{Root: work}, runner.NewLines(nil))
	return err
}

// Run executes a step: see runner.Runner.
func (r *Runner) Run(
	ctx context.Context,
	s runner.Step,
	dir string,
	output func(line string),
) (err error) {
	if s.Arch != runtime.GOARCH {
		return fmt.Errorf(
			"%s: %w: the chroot runner of this %s machine cannot run programs for %s: use BuildKit with a builder that can",
			s.Name,
			runner.ErrUnavailable,
			runtime.GOARCH,
			s.Arch,
		)
	}
	defer func() {
		if err != nil && ctx.Err() != nil {
			err = fmt.Errorf("%s: %w", s.Name, context.Cause(ctx))
		}
	}()
	f, err := workdir.New(r.work, folderPrefix)
	if err != nil {
		return fmt.Errorf("%s: make a root for it in %s: %w", s.Name, r.work, err)
	}
	defer func() { err = errors.Join(err, f.Remove()) }()
	root := filepath.Join(f.Path, "root")
	if err := errors.Join(emptyFolder(root), runnable(f.Path)); err != nil {
		return fmt.Errorf("%s: %w", s.Name, err)
	}
	within, err := os.OpenRoot(root) // before the command can change anything
	if err != nil {
		return err
	}
	defer within.Close()
	result, err := unpack(ctx, root, s)
	if err != nil {
		return fmt.Errorf("%s: unpack its root: %w", s.Name, err)
	}
	if err := r.execute(ctx, s, root, output); err != nil {
		return err
	}
	from, err := within.OpenRoot(result)
	if err != nil {
		return fmt.Errorf("%s: open what the command left in %s: %w", s.Name, s.Output, err)
	}
	defer from.Close()
	if err := runner.Collect(ctx, from, dir); err != nil {
		return fmt.Errorf("%s: %w", s.Name, err)
	}
	return nil
}

// runnable refuses a file system from which the kernel would not start programs; the error would
// otherwise look as if the command itself had no permission.
func runnable(dir string) error {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	if fs.Flags&unix.ST_NOEXEC != 0 {
		return fmt.Errorf(
			"%w: %s is mounted noexec, so no program starts from it: name another folder, or use BuildKit",
			runner.ErrUnavailable,
			dir,
		)
	}
	return nil
}
