package images

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/lockfile"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/packages"
	"github.com/driver-container/driver-container/images/recipe"
)

// lockedDrafts returns the images of a target as they were locked. An image that is not locked, or
// that was locked for other options or another row of the matrix, is refused: a build that goes by a
// lock never makes something else without saying so.
func (q *Request) lockedDrafts(t matrix.Target) ([]*Draft, error) {
	all, err := q.draftsOf(t, func() (map[string][]string, error) { return q.lockedKernels(t) })
	for _, d := range all {
		if err != nil {
			break
		}
		err = q.usePins(d)
	}
	if err != nil {
		return nil, failure.Errorf(failure.Usage, "%s: %w", q.Lock.File, err)
	}
	return all, nil
}

// draftsOf returns the images of a target for the kernels that find returns, each with the words of
// the lock that mean it.
func (q *Request) draftsOf(
	t matrix.Target,
	find func() (map[string][]string, error),
) ([]*Draft, error) {
	if !q.choosesKernels() {
		return q.draft(t, nil)
	}
	words, err := find()
	if err != nil {
		return nil, err
	}
	named := *q
	named.Kernels = slices.Collect(maps.Keys(words))
	named.Options.KernelFrom = nil
	releases, err := named.selectOffered(t, nil)
	if err != nil {
		return nil, err
	}
	all, err := q.draft(t, releases)
	for _, d := range all {
		d.kernelWords = words[d.options.Kernels[0]]
		if q.Options.OneImage {
			d.kernelWords = q.lockWords()
		}
	}
	return all, err
}

// lockedKernels returns the releases of the kernels that the request meant when it was locked, so
// that no repository has to be asked what the latest kernel is. Each has the words that mean it.
func (q *Request) lockedKernels(t matrix.Target) (map[string][]string, error) {
	words := map[string][]string{}
	if q.Options.OneImage {
		entry, ok := q.Lock.Find(t.Tag(), t.Arch)
		if !ok || !slices.Equal(entry.Kernels, q.lockWords()) &&
			!sameWords(entry.Recipe.Releases(), q.Kernels) {
			kernels := strings.Join(q.lockWords(), ", ")
			return nil, q.notLocked(t, " with the kernels "+kernels)
		}
		for _, release := range entry.Recipe.Releases() {
			words[release] = entry.Kernels
		}
		return words, nil
	}
	for _, spec := range q.kernelWords() {
		word := q.lockWord(spec)
		releases := lockedReleases(q.Lock, t, spec, word)
		if len(releases) == 0 {
			return nil, q.notLocked(t, ": which kernels --kernel "+word+" means")
		}
		for _, release := range releases {
			words[release] = append(words[release], word)
		}
	}
	return words, nil
}

func (q *Request) notLocked(t matrix.Target, what string) error {
	command := q.lockCommand(lockfile.Name(t.Tag(), t.Arch))
	return fmt.Errorf("%s %s%s is %w: %s", t.Tag(), t.Arch, what, ErrNotLocked, command)
}

func (q *Request) lockCommand(entry string) string {
	if q.LockCommand == nil {
		return ""
	}
	return q.LockCommand(entry)
}

// lockWord is how the lock notes a word for kernels: with the flavours that narrow it, and with the
// images that it is about.
func (q *Request) lockWord(word string) string {
	if !isListed(word) {
		return word
	}
	words := []string{cmp.Or(word, "only")}
	if len(q.KernelFlavours) > 0 {
		words = append(words, strings.Join(sorted(q.KernelFlavours), ","))
	}
	if q.Options.SignedModules {
		words = append(words, "signed")
	}
	for _, ref := range recipe.PublicImages(q.Options.KernelFrom) {
		words = append(words, "from", cmp.Or(ref, "file"))
	}
	return strings.Join(words, " ")
}

// lockWords are those of all words for kernels.
func (q *Request) lockWords() (all []string) {
	for _, word := range q.kernelWords() {
		all = append(all, q.lockWord(word))
	}
	return sorted(all)
}

// sorted is a list in order, each word once.
func sorted(words []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(words)))
}

func sameWords(a, b []string) bool { return slices.Equal(sorted(a), sorted(b)) }

// lockedReleases lists the kernels of a target that a word stood for when it was locked.
func lockedReleases(l *lockfile.Lock, t matrix.Target, spec, word string) (releases []string) {
	if !isListed(spec) {
		return []string{spec}
	}
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
		r := l.Images[name].Recipe
		if r.System == t.System.ID && r.Driver == t.Driver.Version && r.Arch == t.Arch {
			all = append(all, l.Images[name])
		}
	}
	return all
}

// lockName is the name of the lock's entry. Modules alone are made from that of the image that has
// them.
func lockName(r *recipe.Recipe) string {
	return lockfile.Name(strings.TrimSuffix(r.Tag, recipe.ModulesSuffix), r.Arch)
}

// usePins gives a draft its locked pins, if options and matrix still ask for the same.
func (q *Request) usePins(d *Draft) error {
	name := lockName(d.Recipe)
	command := q.lockCommand(name)
	entry, ok := q.Lock.Images[name]
	if !ok {
		return fmt.Errorf("%s is %w: %s", name, ErrNotLocked, command)
	}
	changes := lockfile.CompareAsked(entry.Recipe, d.Recipe)
	if len(changes) > 0 {
		return &lockfile.MismatchError{Target: name, Changes: changes, Command: command}
	}
	pins, err := entry.Pins(d.options.Mirror, d.Recipe.Asked)
	mismatch, ok := errors.AsType[*lockfile.MismatchError](err)
	if ok {
		mismatch.Command = command
	}
	d.locked = &pins
	return err
}

// ErrNotLocked says that the lock has no entry for an image.
var ErrNotLocked = errors.New("not locked")

// ExplainLocked adds to the error of a build by the lock what the repositories have now, if
// something that was locked is no longer there.
func (b *Builder) ExplainLocked(ctx context.Context, q Request, r *recipe.Recipe, err error) error {
	_, mismatch := errors.AsType[*fetch.MismatchError](err)
	gone := mismatch || errors.Is(err, fs.ErrNotExist) || errors.Is(err, packages.ErrBase)
	at := slices.IndexFunc(q.Targets, func(t matrix.Target) bool {
		return t.System.ID == r.System && t.Driver.Version == r.Driver && t.Arch == r.Arch
	})
	if q.Lock == nil || !gone || at < 0 {
		return err
	}
	file := q.Lock.File
	q.Lock = nil
	q.Targets = q.Targets[at : at+1]
	q.Options.Kernels = r.Releases()
	now, planErr := b.Plan(ctx, q)
	if planErr != nil {
		return err // the first error says more
	}
	changes := lockfile.ComparePins(r.Pins(), now[0].Pins())
	if len(changes) == 0 {
		return fmt.Errorf("%w; %s has it locked, and the repositories still name it", err, file)
	}
	name := lockName(r)
	return &lockfile.MismatchError{
		Target:  name,
		Changes: changes,
		Command: q.lockCommand(name),
		Err:     err,
	}
}
