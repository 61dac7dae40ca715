package batch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images"
	"github.com/driver-container/driver-container/images/lockfile"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/packages"
	"github.com/driver-container/driver-container/images/recipe"
)

// LockPath is where the lock of a matrix is, unless given names it: beside the matrix, with the
// ending .lock.
func LockPath(given, matrixFile string) string {
	if given != "" {
		return given
	}
	if matrixFile == "" {
		matrixFile = "matrix.yaml"
	}
	return strings.TrimSuffix(matrixFile, filepath.Ext(matrixFile)) + ".lock"
}

// OpenLock reads the sections of the batch's targets, or all sections where the batch has no
// targets. Without a lock, and with "none" as its file, the batch goes by no lock.
func (b *Batch) OpenLock() error {
	if b.Given.LockFile == "none" {
		return nil
	}
	path := LockPath(b.Given.LockFile, b.Given.MatrixFile)
	l, err := lockfile.Read(path, func(name string) bool {
		return len(b.Targets) == 0 || slices.ContainsFunc(b.Targets, func(t matrix.Target) bool {
			return strings.HasPrefix(name, t.Driver.Version+"-") &&
				strings.HasSuffix(name, "-"+t.System.ID+"/"+t.Arch)
		})
	})
	switch {
	case errors.Is(err, fs.ErrNotExist) && b.Given.LockFile == "":
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return failure.Errorf(
			failure.Usage,
			"--lock: %w; driver-build lock --lock %s writes it",
			err,
			path,
		)
	case err != nil:
		return failure.Of(failure.Usage, err)
	}
	b.Lock = l
	return nil
}

// lockedImages are the images of all targets as they were locked. An image that is not locked, or
// that was locked for other flags or for another row of the matrix, is refused: a build that goes
// by a lock never makes something else without saying so.
func (b *Batch) lockedImages() ([]Image, error) {
	var all []Image
	var errs []error
	for _, t := range b.Targets {
		some, err := b.meant(b.Lock, t, nil)
		for i := range some {
			if err == nil {
				some[i].Pins, err = b.LockedPins(some[i])
			}
		}
		all = append(all, some...)
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, failure.Errorf(failure.Usage, "%s: %w", b.Lock.File, err)
	}
	return all, nil
}

// meant gives the images of one target, several where modules are compiled for several kernels:
// those that the flags meant when they were locked, so that no repository has to be asked what the
// latest kernel is. Where they were not locked, list says which are meant now; nil: that is an
// error.
func (b *Batch) meant(l *lockfile.Lock, t matrix.Target, list ListKernels) ([]Image, error) {
	k := b.Kernels
	if !k.Compile() {
		return b.expand(t, &k, nil)
	}
	words, err := b.meantKernels(l, t, list)
	if err != nil {
		return nil, err
	}
	k.Specs = slices.Collect(maps.Keys(words))
	k.Flavours = nil
	k.From = nil
	all, err := b.expand(t, &k, nil)
	for i, im := range all {
		all[i].words = words[im.Plan.Kernels[0]]
		if k.Together {
			all[i].words = b.Kernels.LockWords()
		}
	}
	return all, err
}

// meantKernels are the releases of the kernels, each with the words of the lock that mean it.
func (b *Batch) meantKernels(
	l *lockfile.Lock,
	t matrix.Target,
	list ListKernels,
) (words map[string][]string, err error) {
	k := &b.Kernels
	unlocked := func(format string, args ...any) error {
		command := b.lockCommand(lockfile.Name(t.Tag(), t.Arch))
		return fmt.Errorf(
			"%s %s%s is not locked: %s",
			t.Tag(),
			t.Arch,
			fmt.Sprintf(format, args...),
			command,
		)
	}
	words = map[string][]string{}
	if k.Together {
		e, ok := l.Find(t.Tag(), t.Arch)
		if ok &&
			(slices.Equal(e.Kernels, k.LockWords()) || list == nil && sameWords(e.Recipe.Releases(), k.Specs)) {
			for _, release := range e.Recipe.Releases() {
				words[release] = e.Kernels
			}
			return words, nil
		}
		if list == nil {
			return nil, unlocked(" with the kernels %s", strings.Join(k.LockWords(), ", "))
		}
	}
	for _, spec := range k.Words() {
		word := k.LockWord(spec)
		releases := []string{spec}
		if IsListed(spec) {
			releases = lockedReleases(l, t, word)
		}
		if list != nil && (!IsListed(spec) || len(releases) == 0 || k.Together) {
			one := *k
			if spec != "" {
				one.Specs = []string{spec}
			}
			releases, err = one.Releases(t, b.Selection, list)
			if err != nil {
				return nil, err
			}
		}
		if len(releases) == 0 {
			return nil, unlocked(": which kernels --kernel %s means", word)
		}
		for _, release := range releases {
			words[release] = append(words[release], word)
		}
	}
	return words, nil
}

func sameWords(a, b []string) bool {
	return slices.Equal(
		slices.Sorted(slices.Values(a)),
		slices.Compact(slices.Sorted(slices.Values(b))),
	)
}

// lockedReleases lists the kernels of a target that a word of the lock stood for.
func lockedReleases(l *lockfile.Lock, t matrix.Target, word string) (releases []string) {
	for _, e := range entriesOf(l, t) {
		if e.Recipe.Tag != t.Tag() && slices.Contains(e.Kernels, word) {
			releases = append(releases, e.Recipe.Releases()...)
		}
	}
	return releases
}

// entriesOf lists the entries of a target: that of its image, and those of its images for single
// kernels.
func entriesOf(l *lockfile.Lock, t matrix.Target) (all []*lockfile.Entry) {
	for _, name := range l.Names() {
		if r := l.Images[name].Recipe; r.System == t.System.ID && r.Driver == t.Driver.Version &&
			r.Arch == t.Arch {
			all = append(all, l.Images[name])
		}
	}
	return all
}

// LockedPins returns the locked pins of an image, if the flags and the matrix still ask for that.
func (b *Batch) LockedPins(im Image) (*recipe.Pins, error) {
	now, err := recipe.New(im.Target, im.Plan)
	if err != nil {
		return nil, err
	}
	name := im.lockName()
	command := b.lockCommand(name)
	locked, ok := b.Lock.Images[name]
	if !ok {
		return nil, fmt.Errorf("%s is not locked: %s", name, command)
	}
	if changes := lockfile.CompareAsked(locked.Recipe, now); len(changes) > 0 {
		return nil, &lockfile.MismatchError{Target: name, Changes: changes, Command: command}
	}
	pins, err := locked.Pins(im.Plan.Mirror, now.Asked)
	if mismatch, ok := errors.AsType[*lockfile.MismatchError](err); ok {
		mismatch.Command = command
	}
	return &pins, err
}

// explain adds to an error what the repositories have now, where something that was locked is no
// longer there.
func (b *Batch) explain(ctx context.Context, builder *images.Builder, im Image, err error) error {
	_, mismatch := errors.AsType[*fetch.MismatchError](err)
	if err == nil || im.Pins == nil ||
		!mismatch && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, packages.ErrBase) {
		return err
	}
	now, planErr := builder.Plan(ctx, im.Target, im.Plan)
	if planErr != nil {
		return err // the first error says more
	}
	name := im.lockName()
	if changes := lockfile.ComparePins(*im.Pins, now.Pins()); len(changes) > 0 {
		return &lockfile.MismatchError{
			Target:  name,
			Changes: changes,
			Command: b.lockCommand(name),
			Err:     err,
		}
	}
	return fmt.Errorf("%w; %s has it locked, and the repositories still name it", err, b.Lock.File)
}
