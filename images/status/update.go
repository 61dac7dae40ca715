package status

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/images"
	"github.com/driver-container/driver-container/images/batch"
	"github.com/driver-container/driver-container/images/lockfile"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/recipe"
)

// LockUpdate brings a lock up to date with the targets of a batch.
type LockUpdate struct {
	batch.Batch
	Matrix *matrix.Matrix
	File   string
	Update bool     // resolve again what is locked, even if it still fits
	Names  []string // with Update: the targets to resolve; empty: all

	old   *lockfile.Lock
	valid bool // the file was there, and could be read
}

// Read reads the file and narrows the targets to those that are named. A file that is not there is an empty
// lock, and so is a damaged file when everything is resolved again.
func (u *LockUpdate) Read() (err error) {
	u.old, err = lockfile.Read(u.File, nil)
	u.valid = err == nil
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, lockfile.ErrFormat) && u.Update && len(u.Names) == 0:
		u.old = &lockfile.Lock{Images: map[string]*lockfile.Entry{}}
	case err != nil:
		return failure.Of(failure.Usage, err)
	}
	return u.narrow()
}

// narrow keeps the targets that are named.
func (u *LockUpdate) narrow() error {
	if len(u.Names) == 0 {
		return nil
	}
	matched := map[string]bool{}
	known := u.old.Names()
	u.Targets = slices.DeleteFunc(u.Targets, func(t matrix.Target) bool {
		mine := []string{t.Tag(), t.Tag() + "/" + t.Arch}
		known = append(known, mine...)
		for _, s := range batch.EntriesOf(u.old, t) {
			mine = append(mine, s.Recipe.Tag, s.Name())
		}
		found := false
		for _, name := range u.Names {
			if slices.Contains(mine, name) || u.isKernelTag(t, name) {
				matched[name], found = true, true
			}
		}
		return !found
	})
	for _, name := range u.Names {
		if !matched[name] {
			hint := "give a tag such as 535.261.03-debian12, or TAG/ARCH"
			if near := distros.Nearest(name, known); len(near) > 0 {
				hint = "did you mean " + near[0] + "?"
			}
			return failure.Errorf(failure.Usage, "--update %q: neither the lock nor what is selected has such a target: %s", name, hint)
		}
	}
	return nil
}

// isKernelTag says whether a name is that of an image of the target for one of the kernels that are named.
func (u *LockUpdate) isKernelTag(t matrix.Target, name string) bool {
	for _, k := range u.Kernels.Specs {
		if tag, _ := recipe.KernelTags(t, k); !recipe.IsListed(k) && (name == tag || name == lockfile.Name(tag, t.Arch)) {
			return true
		}
	}
	return false
}

// Resolve finds the new content of the lock. A target that fails does not stop the others, but then there is
// no lock.
func (u *LockUpdate) Resolve(ctx context.Context, builder *images.Builder) (*lockfile.Lock, error) {
	s, err := newSurvey(builder)
	if err != nil {
		return nil, err
	}
	found := make([][]*lockfile.Entry, len(u.Targets))
	if err := batch.JoinErrors(batch.Parallel(ctx, s.online.Jobs, len(u.Targets), func(i int) (err error) {
		found[i], err = u.target(ctx, s, u.Targets[i])
		return err
	}), func(i int) string { return u.Targets[i].Tag() + " " + u.Targets[i].Arch }); err != nil {
		return nil, err
	}
	now := &lockfile.Lock{Images: map[string]*lockfile.Entry{}}
	for _, name := range u.old.Names() {
		if t := u.old.Images[name]; len(u.Names) > 0 || u.inMatrix(t) {
			now.Images[name] = t
		}
	}
	for i, t := range u.Targets {
		u.forget(now, t)
		for _, section := range found[i] {
			now.Images[section.Name()] = section
		}
	}
	return now, nil
}

// inMatrix says whether the matrix still has the pair of a section; rules that can be set aside do not count.
func (u *LockUpdate) inMatrix(t *lockfile.Entry) bool {
	_, err := u.Matrix.Select(matrix.Selection{
		Systems: []string{t.Recipe.System}, Drivers: []string{t.Recipe.Driver}, Archs: []string{t.Recipe.Arch}, AllowIncompatible: true,
	})
	return err == nil
}

// forget drops what the words of this call meant before: the kernel that was the latest last week.
func (u *LockUpdate) forget(now *lockfile.Lock, t matrix.Target) {
	words := u.Kernels.LockWords()
	if u.Kernels.Together || len(words) == 0 {
		return
	}
	for _, s := range batch.EntriesOf(now, t) {
		if s.Recipe.Tag == t.Tag() {
			continue
		}
		left := slices.DeleteFunc(slices.Clone(s.Kernels), func(w string) bool { return slices.Contains(words, w) })
		if len(left) == len(s.Kernels) {
			continue
		}
		if len(left) == 0 {
			delete(now.Images, s.Name())
			continue
		}
		kept := *s
		kept.Kernels = left
		now.Images[s.Name()] = &kept
	}
}

// Changes lists what a new lock has otherwise, a line each.
func (u *LockUpdate) Changes(now *lockfile.Lock) (lines []string) {
	names := slices.Concat(u.old.Names(), now.Names())
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		before, had := u.old.Images[name]
		after, has := now.Images[name]
		switch {
		case !has:
			lines = append(lines, name+": dropped")
		case !had:
			lines = append(lines, fmt.Sprintf("%s: new, base %s, %d packages",
				name, strings.TrimPrefix(after.Recipe.Base.Digest, "sha256:")[:12], len(after.Recipe.AllPackages())))
		default:
			for _, c := range lockfile.Compare(before, after) {
				lines = append(lines, name+": "+c.String())
			}
		}
	}
	return lines
}

// Write writes the new lock, unless the file has it already.
func (u *LockUpdate) Write(ctx context.Context, now *lockfile.Lock, changes []string) error {
	if len(changes) == 0 && u.valid {
		return nil
	}
	return now.Write(ctx, u.File)
}
