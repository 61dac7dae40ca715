package main

import (
	"context"
	"slices"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/images/lockfile"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/recipe"
)

// target gives the sections of one target: of the image as it is or, with --kernel, of those with modules for its kernels.
func (l *locking) target(ctx context.Context, p *planner, t matrix.Target) ([]*lockfile.Target, error) {
	ahead := &l.options.ahead
	if len(ahead.kernels) == 0 {
		one, err := l.section(ctx, p, item{target: t, plan: l.plan}, nil)
		return []*lockfile.Target{one}, err
	}
	meant, err := l.kernels(ctx, p, t)
	if err != nil {
		return nil, err
	}
	var releases []string
	for release := range meant {
		releases = append(releases, release)
	}
	slices.SortFunc(releases, func(a, b string) int { return distros.CompareReleases(b, a) })
	narrowed := *ahead
	narrowed.kernels, narrowed.flavours = releases, nil
	items, err := narrowed.items([]matrix.Target{t}, l.plan, l.options.selection, nil)
	if err != nil {
		return nil, err
	}
	var all []*lockfile.Target
	for _, it := range items {
		words := ahead.words()
		if !ahead.together {
			words = meant[it.plan.Kernels[0]]
		}
		one, err := l.section(ctx, p, it, words)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

// kernels are the releases that the words of --kernel mean, with those words: as they were locked, or, where they were not or
// are to be updated, as the repositories have them.
func (l *locking) kernels(ctx context.Context, p *planner, t matrix.Target) (map[string][]string, error) {
	meant := map[string][]string{}
	old := &lockFile{Lock: l.old}
	ahead := &l.options.ahead
	if one, ok := l.old.Find(t.Tag(), t.Arch); ok && ahead.together && !l.update && slices.Equal(one.Kernels, ahead.words()) {
		for release := range one.Asked.Headers {
			meant[release] = one.Kernels
		}
		return meant, nil
	}
	for _, kernel := range ahead.kernels {
		word := ahead.word(kernel)
		var releases []string
		if !l.update && !ahead.together && recipe.IsListed(kernel) {
			releases = old.meant(t, word)
		}
		if len(releases) == 0 {
			one := *ahead
			one.kernels = []string{kernel}
			var err error
			releases, err = one.releases(t, l.options.selection.incompatible, func(t matrix.Target) ([]distros.Kernel, error) { return p.kernels(ctx, t, l.plan) })
			if err != nil {
				return nil, err
			}
		}
		for _, release := range releases {
			meant[release] = append(meant[release], word)
		}
	}
	return meant, nil
}

// section keeps what is locked of an image if it still answers what is asked, and else plans.
func (l *locking) section(ctx context.Context, p *planner, it item, words []string) (*lockfile.Target, error) {
	asked, err := recipe.Ask(it.target, it.plan)
	if err != nil {
		return nil, err
	}
	old, ok := l.old.Find(it.tag(), it.target.Arch)
	if ok && it.tag() != it.target.Tag() { // a kernel may also be locked under words that are not of this call
		mine := l.options.ahead.words()
		for _, w := range old.Kernels {
			if !slices.Contains(mine, w) {
				words = append(words, w)
			}
		}
	}
	words = slices.Compact(slices.Sorted(slices.Values(words)))
	if ok && !l.update && len(lockfile.CompareRequests(old.Asked, asked)) == 0 {
		kept := *old
		kept.Kernels = words
		return &kept, nil
	}
	r, err := p.recipe(ctx, it)
	if err != nil {
		return nil, err
	}
	return lockfile.New(r, asked, words)
}
