package images

import (
	"context"
	"errors"
	"io/fs"
	"slices"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/images/lockfile"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/recipe"
)

// LockUpdate says what of a lock is resolved again.
type LockUpdate struct {
	Request Request // its Lock is the one to update
	Matrix  *matrix.Matrix
	Again   bool     // resolve again what is locked, even if it still fits
	Names   []string // with Again: the targets to resolve; empty: all
}

// ReadLock reads the lock that is updated. A file that is not there is an empty lock, and so is a
// damaged file if everything is resolved again; current is false for both.
func (u *LockUpdate) ReadLock(file string) (current bool, err error) {
	u.Request.Lock, err = lockfile.Read(file, nil)
	all := u.Again && len(u.Names) == 0
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, lockfile.ErrFormat) && all {
		u.Request.Lock = &lockfile.Lock{Images: map[string]*lockfile.Entry{}}
		return false, u.selectNamed()
	}
	if err != nil {
		return false, failure.Of(failure.Usage, err)
	}
	return true, u.selectNamed()
}

// selectNamed narrows the targets to those that are named.
func (u *LockUpdate) selectNamed() error {
	var selected []string
	q := &u.Request
	q.Targets = slices.DeleteFunc(q.Targets, func(t matrix.Target) bool {
		names := u.namesOf(t)
		selected = append(selected, names...)
		return len(u.Names) > 0 && len(without(u.Names, names)) == len(u.Names)
	})
	unknown := without(u.Names, selected)
	if len(unknown) == 0 {
		return nil
	}
	hint := "give a tag such as 535.261.03-debian12, or TAG/ARCH"
	near := distros.Nearest(unknown[0], append(q.Lock.Names(), selected...))
	if len(near) > 0 {
		hint = "did you mean " + near[0] + "?"
	}
	return failure.Errorf(
		failure.Usage,
		"--update %q: neither the lock nor what is selected has such a target: %s",
		unknown[0],
		hint,
	)
}

// namesOf are the names of the images of a target: that for any kernel, those in the lock and those
// for the kernels that are named.
func (u *LockUpdate) namesOf(t matrix.Target) (names []string) {
	tags := []string{t.Tag()}
	for _, e := range entriesOf(u.Request.Lock, t) {
		tags = append(tags, e.Recipe.Tag)
	}
	for _, k := range u.Request.Kernels {
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

// UpdateLock returns the new content of a lock. A target that fails does not stop the others, but
// then there is no lock.
func (b *Builder) UpdateLock(ctx context.Context, u LockUpdate) (*lockfile.Lock, error) {
	q := u.Request
	found := make([][]*lockfile.Entry, len(q.Targets))
	errs := Parallel(ctx, b.Jobs, len(q.Targets), func(i int) (err error) {
		found[i], err = b.lockEntries(ctx, u, q.Targets[i])
		return err
	})
	err := JoinErrors(errs, func(i int) string { return q.Targets[i].Tag() + " " + q.Targets[i].Arch })
	if err != nil {
		return nil, err
	}
	now := &lockfile.Lock{Images: map[string]*lockfile.Entry{}}
	for _, name := range q.Lock.Names() {
		e := q.Lock.Images[name]
		if len(u.Names) > 0 || u.inMatrix(e.Recipe) {
			now.Images[name] = e
		}
	}
	for i, t := range q.Targets {
		q.dropKernels(now, t)
		for _, e := range found[i] {
			now.Images[e.Name()] = e
		}
	}
	return now, nil
}

// lockEntries returns the entries of one target: of its image without modules or, with kernels, of
// its images with modules. What is locked stays if it still answers what is asked; else the image is
// planned.
func (b *Builder) lockEntries(
	ctx context.Context,
	u LockUpdate,
	t matrix.Target,
) (all []*lockfile.Entry, err error) {
	q := u.Request
	written := q.Lock
	if u.Again {
		q.Lock = &lockfile.Lock{}
	}
	drafts, err := q.draftsOf(t, func() (map[string][]string, error) {
		return b.kernelsToLock(ctx, q, t)
	})
	if err != nil {
		return nil, err
	}
	for _, d := range drafts {
		tag := d.Recipe.Tag
		words := d.kernelWords
		old, ok := written.Find(tag, t.Arch)
		if ok && tag != t.Tag() { // also locked under words that are not of this call
			words = append(words, without(old.Kernels, q.lockWords())...)
		}
		words = sorted(words)
		old, ok = q.Lock.Find(tag, t.Arch)
		if ok && len(lockfile.CompareAsked(old.Recipe, d.Recipe)) == 0 {
			kept := *old
			kept.Kernels = words
			all = append(all, &kept)
			continue
		}
		err := b.Resolve(ctx, d)
		if err != nil {
			return nil, err
		}
		e, err := lockfile.New(d.Recipe, words)
		if err != nil {
			return nil, err
		}
		all = append(all, e)
	}
	return all, nil
}

// kernelsToLock returns the releases of the kernels of a target, each with the words that mean it:
// those of the lock where it has them, else those that are offered now.
func (b *Builder) kernelsToLock(
	ctx context.Context,
	q Request,
	t matrix.Target,
) (map[string][]string, error) {
	words := map[string][]string{}
	if q.Options.OneImage {
		entry, ok := q.Lock.Find(t.Tag(), t.Arch)
		if ok && slices.Equal(entry.Kernels, q.lockWords()) {
			for _, release := range entry.Recipe.Releases() {
				words[release] = entry.Kernels
			}
			return words, nil
		}
	}
	for _, spec := range q.kernelWords() {
		word := q.lockWord(spec)
		var releases []string
		if isListed(spec) && !q.Options.OneImage {
			releases = lockedReleases(q.Lock, t, spec, word)
		}
		if len(releases) == 0 {
			one := q
			if spec != "" {
				one.Kernels = []string{spec}
			}
			var err error
			releases, err = b.selectKernels(ctx, one, t)
			if err != nil {
				return nil, err
			}
		}
		for _, release := range releases {
			words[release] = append(words[release], word)
		}
	}
	return words, nil
}

// inMatrix says whether the matrix still has the pair of a recipe; rules that can be set aside do
// not count.
func (u *LockUpdate) inMatrix(r *recipe.Recipe) bool {
	_, err := u.Matrix.Select(matrix.Selection{
		Systems:           []string{r.System},
		Drivers:           []string{r.Driver},
		Archs:             []string{r.Arch},
		AllowIncompatible: true,
	})
	return err == nil
}

// dropKernels drops what the words of the request meant before: the kernel that was the latest last
// week.
func (q *Request) dropKernels(now *lockfile.Lock, t matrix.Target) {
	for _, e := range entriesOf(now, t) {
		kept := *e
		kept.Kernels = without(e.Kernels, q.lockWords())
		switch {
		case q.Options.OneImage || e.Recipe.Tag == t.Tag() || len(kept.Kernels) == len(e.Kernels):
		case len(kept.Kernels) == 0:
			delete(now.Images, e.Name())
		default:
			now.Images[e.Name()] = &kept
		}
	}
}

// without is a list without some words.
func without(words, some []string) []string {
	return slices.DeleteFunc(
		slices.Clone(words),
		func(w string) bool { return slices.Contains(some, w) },
	)
}
