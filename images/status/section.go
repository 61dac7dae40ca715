package status

import (
	"context"
	"slices"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/images/batch"
	"github.com/driver-container/driver-container/images/lockfile"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/recipe"
)

// target gives the sections of one target: of its image without modules or, with kernels, of its images with
// modules.
func (u *LockUpdate) target(ctx context.Context, s *survey, t matrix.Target) ([]*lockfile.Entry, error) {
	if !u.Kernels.Compile() {
		section, err := u.section(ctx, s, batch.Image{Target: t, Plan: u.Plan}, nil)
		return []*lockfile.Entry{section}, err
	}
	words, err := u.releases(ctx, s, t)
	if err != nil {
		return nil, err
	}
	var releases []string
	for release := range words {
		releases = append(releases, release)
	}
	slices.SortFunc(releases, func(a, b string) int { return distros.CompareReleases(b, a) })
	k := u.Kernels
	k.Specs, k.Flavours, k.From = releases, nil, nil
	expanded, err := u.Expand([]matrix.Target{t}, &k, nil)
	if err != nil {
		return nil, err
	}
	var all []*lockfile.Entry
	for _, im := range expanded {
		meant := u.Kernels.LockWords()
		if !u.Kernels.Together {
			meant = words[im.Plan.Kernels[0]]
		}
		section, err := u.section(ctx, s, im, meant)
		if err != nil {
			return nil, err
		}
		all = append(all, section)
	}
	return all, nil
}

// releases are the kernels that the specs mean, each with the words that mean it: as they were locked, or,
// where they were not locked or are to be resolved again, as the repositories have them.
func (u *LockUpdate) releases(ctx context.Context, s *survey, t matrix.Target) (map[string][]string, error) {
	words := map[string][]string{}
	k := &u.Kernels
	if section, ok := u.old.Find(t.Tag(), t.Arch); ok && k.Together && !u.Update && slices.Equal(section.Kernels, k.LockWords()) {
		for _, release := range section.Recipe.Releases() {
			words[release] = section.Kernels
		}
		return words, nil
	}
	for _, spec := range k.Words() {
		word := k.LockWord(spec)
		var releases []string
		if !u.Update && !k.Together && batch.IsListed(spec) {
			releases = batch.LockedReleases(u.old, t, word)
		}
		if len(releases) == 0 {
			single := *k
			if spec != "" {
				single.Specs = []string{spec}
			}
			var err error
			releases, err = single.Releases(t, u.Selection, u.Offered(ctx, s.plans))
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

// section keeps what is locked of an image if it still answers what is asked, and plans the image otherwise.
func (u *LockUpdate) section(ctx context.Context, s *survey, im batch.Image, words []string) (*lockfile.Entry, error) {
	r, err := recipe.New(im.Target, im.Plan)
	if err != nil {
		return nil, err
	}
	old, ok := u.old.Find(im.Tag(), im.Target.Arch)
	if ok && im.Tag() != im.Target.Tag() { // a kernel may also be locked under words that are not of this call
		mine := u.Kernels.LockWords()
		for _, w := range old.Kernels {
			if !slices.Contains(mine, w) {
				words = append(words, w)
			}
		}
	}
	words = slices.Compact(slices.Sorted(slices.Values(words)))
	if ok && !u.Update && len(lockfile.CompareAsked(old.Recipe, r)) == 0 {
		kept := *old
		kept.Kernels = words
		return &kept, nil
	}
	pins, err := s.plans.Find(ctx, im)
	if err == nil {
		err = r.Pin(im.Plan, pins)
	}
	if err != nil {
		return nil, err
	}
	return lockfile.New(r, words)
}
