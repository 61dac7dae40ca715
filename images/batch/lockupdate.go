package batch

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
	"github.com/driver-container/driver-container/images/lockfile"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/recipe"
)

// LockUpdate brings a lock up to date with the targets of a batch.
type LockUpdate struct {
	Batch
	Matrix *matrix.Matrix
	File   string
	Update bool     // resolve again what is locked, even if it still fits
	Names  []string // with Update: the targets to resolve; empty: all

	old   *lockfile.Lock
	valid bool // the file was there, and could be read
}

// Read reads the file and narrows the targets to those that are named. A file that is not there is
// an empty lock, and so is a damaged file when everything is resolved again.
func (u *LockUpdate) Read() (err error) {
	u.old, err = lockfile.Read(u.File, nil)
	u.valid = err == nil
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, lockfile.ErrFormat) && u.Update && len(u.Names) == 0:
		u.old = &lockfile.Lock{Images: map[string]*lockfile.Entry{}}
	case err != nil:
		return failure.Of(failure.Usage, err)
	}
	var selected []string
	u.Targets = slices.DeleteFunc(u.Targets, func(t matrix.Target) bool {
		mine := u.namesOf(t)
		selected = append(selected, mine...)
		return len(u.Names) > 0 && len(without(u.Names, mine)) == len(u.Names)
	})
	if unknown := without(u.Names, selected); len(unknown) > 0 {
		name := unknown[0]
		hint := "give a tag such as 535.261.03-debian12, or TAG/ARCH"
		if near := distros.Nearest(name, append(u.old.Names(), selected...)); len(near) > 0 {
			hint = "did you mean " + near[0] + "?"
		}
		return failure.Errorf(
			failure.Usage,
			"--update %q: neither the lock nor what is selected has such a target: %s",
			name,
			hint,
		)
	}
	return nil
}

// namesOf are the names of the images of a target: that for any kernel, those in the lock and those
// for the kernels that are named.
func (u *LockUpdate) namesOf(t matrix.Target) (names []string) {
	tags := []string{t.Tag()}
	for _, e := range entriesOf(u.old, t) {
		tags = append(tags, e.Recipe.Tag)
	}
	for _, k := range u.Kernels.Specs {
		if !recipe.IsListed(k) {
			tag, _ := recipe.KernelTags(t, k)
			tags = append(tags, tag)
		}
	}
	for _, tag := range tags {
		names = append(names, tag, lockfile.Name(tag, t.Arch))
	}
	return names
}

// Resolve finds the new content of the lock. A target that fails does not stop the others, but then
// there is no lock.
func (u *LockUpdate) Resolve(ctx context.Context, builder *images.Builder) (*lockfile.Lock, error) {
	plans, err := NewPlans(builder)
	if err != nil {
		return nil, err
	}
	found := make([][]*lockfile.Entry, len(u.Targets))
	if err := EachError(ctx, builder.Jobs, len(u.Targets), func(i int) string { return u.Targets[i].Tag() + " " + u.Targets[i].Arch },
		func(i int) (err error) {
			found[i], err = u.target(ctx, plans, u.Targets[i])
			return err
		}); err != nil {
		return nil, err
	}
	now := &lockfile.Lock{Images: map[string]*lockfile.Entry{}}
	for _, name := range u.old.Names() {
		if e := u.old.Images[name]; len(u.Names) > 0 || u.inMatrix(e.Recipe) {
			now.Images[name] = e
		}
	}
	for i, t := range u.Targets {
		u.forget(now, t)
		for _, e := range found[i] {
			now.Images[e.Name()] = e
		}
	}
	return now, nil
}

// target gives the entries of one target: of its image without modules or, with kernels, of its
// images with modules. What is locked stays if it still answers what is asked; else the image is
// planned.
func (u *LockUpdate) target(
	ctx context.Context,
	plans *Plans,
	t matrix.Target,
) (all []*lockfile.Entry, err error) {
	locked := u.old
	if u.Update {
		locked = &lockfile.Lock{}
	}
	wanted, err := u.meant(locked, t, u.Offered(ctx, plans))
	if err != nil {
		return nil, err
	}
	for _, im := range wanted {
		r, err := recipe.New(im.Target, im.Plan)
		if err != nil {
			return nil, err
		}
		// also locked under words that are not of this call
		if old, ok := u.old.Find(im.Tag(), t.Arch); ok && im.Tag() != t.Tag() {
			im.words = append(im.words, without(old.Kernels, u.Kernels.LockWords())...)
		}
		im.words = slices.Compact(slices.Sorted(slices.Values(im.words)))
		if old, ok := locked.Find(im.Tag(), t.Arch); ok &&
			len(lockfile.CompareAsked(old.Recipe, r)) == 0 {
			kept := *old
			kept.Kernels = im.words
			all = append(all, &kept)
			continue
		}
		pins, err := plans.Find(ctx, im)
		if err == nil {
			err = r.Pin(im.Plan, pins)
		}
		if err != nil {
			return nil, err
		}
		e, err := lockfile.New(r, im.words)
		if err != nil {
			return nil, err
		}
		all = append(all, e)
	}
	return all, nil
}

func without(words, some []string) []string {
	return slices.DeleteFunc(
		slices.Clone(words),
		func(w string) bool { return slices.Contains(some, w) },
	)
}

// inMatrix says whether the matrix still has the pair of a recipe; rules that can be set aside do
// not count.
func (u *LockUpdate) inMatrix(r *recipe.Recipe) bool {
	_, err := u.Matrix.Select(matrix.Selection{
		Systems: []string{
			r.System,
		}, Drivers: []string{r.Driver}, Archs: []string{r.Arch}, AllowIncompatible: true,
	})
	return err == nil
}

// forget drops what the words of this call meant before: the kernel that was the latest last week.
func (u *LockUpdate) forget(now *lockfile.Lock, t matrix.Target) {
	for _, e := range entriesOf(now, t) {
		left := without(e.Kernels, u.Kernels.LockWords())
		switch {
		case u.Kernels.Together || e.Recipe.Tag == t.Tag() || len(left) == len(e.Kernels):
		case len(left) == 0:
			delete(now.Images, e.Name())
		default:
			kept := *e
			kept.Kernels = left
			now.Images[e.Name()] = &kept
		}
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
			lines = append(lines, fmt.Sprintf(
				"%s: new, base %s, %d packages",
				name,
				strings.TrimPrefix(after.Recipe.Base.Digest, "sha256:")[:12],
				len(after.Recipe.AllPackages()),
			))
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
