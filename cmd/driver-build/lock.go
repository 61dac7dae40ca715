package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/images/lockfile"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/recipe"
)

const lockLong = `Resolve everything that images are made from (digests of bases, packages, compilers, headers) and write it to matrix.lock,
beside the matrix, to be kept in version control. From then on builds use it: they ask no repository and no tag, make the same
image next year, and refuse what no longer fits the matrix.

Without --update, what is missing or no longer fits the matrix is resolved, the rest stays as it is, and what the matrix no longer
has is dropped. With --update everything selected is resolved anew, or, where TARGETs are given (a tag, or TAG/ARCH), only those.
Without --os and --driver the whole matrix is meant.`

const lockExample = `  driver-build lock
  driver-build lock --os debian12 --driver 535.261.03 --kernel latest
  driver-build lock --update 535.261.03-debian12
  driver-build lock --check            # in CI: exit code 3 and the difference when the lock is not complete
  driver-build lock --check --update   # the same when there is anything newer`

// locking is one call of the command.
type locking struct {
	app           *app
	options       buildOptions // selection, base, mirror, lock and ahead only
	update, check bool
	names         []string // of --update; empty: all

	matrix  *matrix.Matrix
	targets []matrix.Target
	plan    recipe.Options
	file    string
	old     *lockfile.Lock
	valid   bool // the file was there, and could be read
}

func newLockCmd(a *app) *cobra.Command {
	l := &locking{app: a}
	o := &l.options
	cmd := &cobra.Command{
		Use: "lock [--update [TARGET...]]", Short: "Pin what images are made from in matrix.lock", Long: lockLong, Example: lockExample,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 && !l.update {
				return usageError{fmt.Errorf("unexpected argument %q: targets follow --update; select others with --os and --driver", args[0])}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			l.names = args
			return l.do(cmd.Context())
		},
	}
	f := cmd.Flags()
	o.selection.flags(f)
	f.StringVar(&o.base, "base", "", "base image instead of the row's: REF, oci:DIR[:TAG], oci-archive:FILE or docker-archive:FILE")
	f.StringVar(&o.mirror, "mirror", "", "package mirror instead of the addresses in the base's configuration: URL or PREFIX=URL")
	f.StringVar(&o.lock, "lock", "", "file to write (default: matrix.lock beside matrix.yaml)")
	f.BoolVar(&l.update, "update", false, "resolve anew: everything selected, or the TARGETs given")
	f.BoolVar(&l.check, "check", false, "write nothing; print what would change, with exit code 3 when anything would")
	o.ahead.flags(f)
	return cmd
}

func (l *locking) do(ctx context.Context) (err error) {
	o := &l.options
	if o.lock == "none" {
		return usageError{errors.New("--lock none is for builds: give a file")}
	}
	if err := o.ahead.check(); err != nil {
		return usageError{err}
	}
	if l.matrix, err = o.selection.load(); err != nil {
		return err
	}
	if len(o.selection.systems) == 0 || len(o.selection.drivers) == 0 {
		o.selection.all = true
	}
	if l.targets, err = o.selection.targets(l.matrix); err != nil {
		return err
	}
	l.plan = recipe.Options{Base: o.base, Mirror: o.mirror}
	l.file = lockPath(o.lock, o.selection.matrixFile)
	if !l.check {
		if err := folderOf("--lock", l.file); err != nil {
			return err
		}
	}
	l.old, err = lockfile.Read(l.file, nil)
	l.valid = err == nil
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, lockfile.ErrFormat) && l.update && len(l.names) == 0:
		l.old = &lockfile.Lock{Targets: map[string]*lockfile.Target{}}
	case err != nil:
		return usageError{err}
	}
	if err := l.narrow(); err != nil {
		return usageError{err}
	}
	var now *lockfile.Lock
	if err := l.app.with(ctx, l.matrix.Defaults.Mirrors, "", func(ctx context.Context, s *session) (err error) {
		s.builder.Binaries = func(string) ([]recipe.Binary, error) { return nil, nil } // they are not locked
		now, err = l.resolve(ctx, s)
		return err
	}); err != nil {
		return err
	}
	return l.finish(now)
}

// narrow keeps the targets that --update names.
func (l *locking) narrow() error {
	if len(l.names) == 0 {
		return nil
	}
	matched := map[string]bool{}
	of := (&lockFile{Lock: l.old}).of
	known := l.old.Names()
	l.targets = slices.DeleteFunc(l.targets, func(t matrix.Target) bool {
		mine := []string{t.Tag(), t.Tag() + "/" + t.Arch}
		known = append(known, mine...)
		for _, s := range of(t) {
			mine = append(mine, s.Tag, s.Name())
		}
		found := false
		for _, name := range l.names {
			if slices.Contains(mine, name) || l.isKernelTag(t, name) {
				matched[name], found = true, true
			}
		}
		return !found
	})
	for _, name := range l.names {
		if !matched[name] {
			hint := "give a tag such as 535.261.03-debian12, or TAG/ARCH"
			if near := distros.Nearest(name, known); len(near) > 0 {
				hint = "did you mean " + near[0] + "?"
			}
			return fmt.Errorf("--update %q: neither the lock nor what is selected has such a target: %s", name, hint)
		}
	}
	return nil
}

// isKernelTag says whether a name is that of an image of the target for one of the kernels that --kernel names.
func (l *locking) isKernelTag(t matrix.Target, name string) bool {
	for _, k := range l.options.ahead.kernels {
		if tag, _ := recipe.KernelTags(t, k); !recipe.IsListed(k) && (name == tag || name == lockfile.Name(tag, t.Arch)) {
			return true
		}
	}
	return false
}

// resolve finds the new content of the lock. A target that fails does not stop the others, but nothing is written then.
func (l *locking) resolve(ctx context.Context, s *session) (*lockfile.Lock, error) {
	p, err := newPlanner(s)
	if err != nil {
		return nil, err
	}
	found := make([][]*lockfile.Target, len(l.targets))
	errs := make([]error, len(l.targets))
	var eg errgroup.Group
	eg.SetLimit(max(1, l.app.jobs))
	for i, t := range l.targets {
		eg.Go(func() error {
			if errs[i] = context.Cause(ctx); errs[i] == nil {
				found[i], errs[i] = l.target(ctx, p, t)
			}
			return nil
		})
	}
	_ = eg.Wait() // the errors are in errs
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	now := &lockfile.Lock{Targets: map[string]*lockfile.Target{}}
	for _, name := range l.old.Names() {
		if t := l.old.Targets[name]; len(l.names) > 0 || l.inMatrix(t) {
			now.Targets[name] = t
		}
	}
	for i, t := range l.targets {
		l.forget(now, t)
		for _, made := range found[i] {
			now.Targets[made.Name()] = made
		}
	}
	return now, nil
}

// inMatrix says whether the matrix still has the pair of a section; rules that can be set aside do not count.
func (l *locking) inMatrix(t *lockfile.Target) bool {
	_, err := l.matrix.Select(matrix.Selection{Systems: []string{t.System}, Drivers: []string{t.Driver}, Archs: []string{t.Arch}, AllowIncompatible: true})
	return err == nil
}

// forget drops what the words of this call meant before: the kernel that was the latest last week.
func (l *locking) forget(now *lockfile.Lock, t matrix.Target) {
	words := l.options.ahead.words()
	if l.options.ahead.together || len(words) == 0 {
		return
	}
	for _, s := range (&lockFile{Lock: now}).of(t) {
		if s.Tag == t.Tag() {
			continue
		}
		left := slices.DeleteFunc(slices.Clone(s.Kernels), func(w string) bool { return slices.Contains(words, w) })
		if len(left) == len(s.Kernels) {
			continue
		}
		if len(left) == 0 {
			delete(now.Targets, s.Name())
			continue
		}
		kept := *s
		kept.Kernels = left
		now.Targets[s.Name()] = &kept
	}
}

// finish says what changed, and writes.
func (l *locking) finish(now *lockfile.Lock) error {
	lines := l.difference(now)
	for _, line := range lines {
		fmt.Fprintln(l.app.stdout, line)
	}
	if l.check {
		if len(lines) > 0 {
			return fmt.Errorf("%s is not up to date: %w", l.file, errSomeFailed)
		}
		return nil
	}
	if len(lines) == 0 && l.valid {
		return nil
	}
	return now.Write(l.file)
}

func (l *locking) difference(now *lockfile.Lock) (lines []string) {
	names := slices.Concat(l.old.Names(), now.Names())
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		before, had := l.old.Targets[name]
		after, has := now.Targets[name]
		switch {
		case !has:
			lines = append(lines, name+": dropped")
		case !had:
			lines = append(lines, fmt.Sprintf("%s: new, base %s, %d packages", name, strings.TrimPrefix(after.Pins.Base.Digest, "sha256:")[:12], len(after.Packages())))
		default:
			for _, c := range lockfile.Compare(before, after) {
				lines = append(lines, name+": "+c.String())
			}
		}
	}
	return lines
}
