package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images"
	"github.com/driver-container/driver-container/images/lockfile"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/packages"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/registry"
)

// lockFile is a lock that a command goes by.
type lockFile struct {
	*lockfile.Lock
	file string
}

func lockFlag(f *pflag.FlagSet, value *string) {
	f.StringVar(value, "lock", "", "lock to go by: FILE or none (default: matrix.lock beside matrix.yaml, where it is there)")
}

// lockPath is where the lock of a matrix is: beside it, with the ending .lock.
func lockPath(given, matrixFile string) string {
	if given != "" {
		return given
	}
	if matrixFile == "" {
		matrixFile = "matrix.yaml"
	}
	return strings.TrimSuffix(matrixFile, filepath.Ext(matrixFile)) + ".lock"
}

// openLock reads what the lock that the flags mean has of some targets, or of all when none is given; nil where there is no lock.
func openLock(o *buildOptions, targets ...matrix.Target) (*lockFile, error) {
	if o.lock == "none" {
		return nil, nil //nolint:nilnil // nothing to go by is no failure
	}
	path := lockPath(o.lock, o.selection.matrixFile)
	l, err := lockfile.Read(path, func(name string) bool {
		return len(targets) == 0 || slices.ContainsFunc(targets, func(t matrix.Target) bool {
			return strings.HasPrefix(name, t.Driver.Version+"-") && strings.HasSuffix(name, "-"+t.System.ID+"/"+t.Arch)
		})
	})
	switch {
	case errors.Is(err, fs.ErrNotExist) && o.lock == "":
		return nil, nil //nolint:nilnil // as above
	case errors.Is(err, fs.ErrNotExist):
		return nil, usageError{fmt.Errorf("--lock: %w; driver-build lock --lock %s writes it", err, path)}
	case err != nil:
		return nil, usageError{err}
	}
	return &lockFile{l, path}, nil
}

// items are the images of targets as they were locked. What is not locked, or was locked for other flags or another row of the
// matrix, is refused: a build that goes by a lock never makes something else in silence.
func (l *lockFile) items(o *buildOptions, targets []matrix.Target, plan recipe.Options) ([]item, error) {
	var items []item
	var errs []error
	for _, t := range targets {
		some, err := l.target(o, t, plan)
		items, errs = append(items, some...), append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, usageError{fmt.Errorf("%s: %w", l.file, err)}
	}
	return items, nil
}

// target gives the images of one target, with --kernel possibly several.
func (l *lockFile) target(o *buildOptions, t matrix.Target, plan recipe.Options) ([]item, error) {
	kernels, err := l.kernels(&o.ahead, t)
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, lockCommand(o, t.Tag()+"/"+t.Arch))
	}
	ahead := o.ahead
	ahead.kernels, ahead.flavours = kernels, nil
	items, err := ahead.items([]matrix.Target{t}, plan, o.selection, nil)
	if err != nil {
		return nil, err
	}
	for i := range items {
		if items[i].pins, err = l.pins(o, items[i]); err != nil {
			return nil, err
		}
	}
	return items, nil
}

// kernels turns the words of --kernel into releases as the lock has them, so that nobody needs to be asked what the latest is.
func (l *lockFile) kernels(p *precompile, t matrix.Target) (releases []string, err error) {
	if p.together && len(p.kernels) > 0 {
		one, ok := l.Find(t.Tag(), t.Arch)
		locked := []string(nil)
		if ok {
			locked = slices.Collect(maps.Keys(one.Asked.Headers))
		}
		if !ok || !slices.Equal(one.Kernels, p.words()) && !sameWords(locked, p.kernels) {
			return nil, fmt.Errorf("%s %s with the kernels %s is not locked", t.Tag(), t.Arch, strings.Join(p.words(), ", "))
		}
		return locked, nil
	}
	for _, word := range p.kernels {
		if !recipe.IsListed(word) {
			releases = append(releases, word)
			continue
		}
		found := l.meant(t, p.word(word))
		if len(found) == 0 {
			return nil, fmt.Errorf("%s %s: which kernels --kernel %s means is not locked", t.Tag(), t.Arch, p.word(word))
		}
		releases = append(releases, found...)
	}
	slices.Sort(releases)
	return slices.Compact(releases), nil
}

func sameWords(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Compact(slices.Sorted(slices.Values(b))))
}

// meant lists the kernels of a target that a word of --kernel stood for when they were locked.
func (l *lockFile) meant(t matrix.Target, word string) (releases []string) {
	for _, locked := range l.of(t) {
		if locked.Tag != t.Tag() && slices.Contains(locked.Kernels, word) {
			releases = slices.AppendSeq(releases, maps.Keys(locked.Asked.Headers))
		}
	}
	return releases
}

// of lists the sections of a target: the image itself and those for single kernels.
func (l *lockFile) of(t matrix.Target) (all []*lockfile.Target) {
	for _, name := range l.Names() {
		if s := l.Targets[name]; s.System == t.System.ID && s.Driver == t.Driver.Version && s.Arch == t.Arch {
			all = append(all, s)
		}
	}
	return all
}

// pins gives what was locked of an image, after a look at whether that is what the flags and the matrix ask for.
func (l *lockFile) pins(o *buildOptions, it item) (*recipe.Pins, error) {
	asked, err := recipe.Ask(it.target, it.plan)
	if err != nil {
		return nil, err
	}
	name := lockfile.Name(it.tag(), it.target.Arch)
	command := lockCommand(o, name)
	locked, ok := l.Find(it.tag(), it.target.Arch)
	if !ok {
		return nil, fmt.Errorf("%s is not locked: %s", name, command)
	}
	if changes := lockfile.CompareRequests(locked.Asked, asked); len(changes) > 0 {
		return nil, &lockfile.MismatchError{Target: name, Changes: changes, Command: command}
	}
	pins, err := locked.WithMirror(it.plan.Mirror, asked)
	var mismatch *lockfile.MismatchError
	if errors.As(err, &mismatch) {
		mismatch.Command = command
	}
	return &pins, err
}

// tag is the tag that the image gets.
func (it item) tag() string {
	if len(it.plan.Kernels) == 0 || it.plan.Together {
		return it.target.Tag()
	}
	tag, _ := recipe.KernelTags(it.target, it.plan.Kernels[0])
	return tag
}

// recipe plans the image, or takes what was locked.
func (it item) recipe(ctx context.Context, b *images.Builder) (*recipe.Recipe, error) {
	if it.pins != nil {
		return b.Recipe(it.target, it.plan, *it.pins)
	}
	return b.Plan(ctx, it.target, it.plan)
}

// base is where the base of the image is.
func (it item) base() string {
	ref := cmp.Or(it.plan.Base, it.target.System.Base)
	if it.pins != nil && !registry.IsLocal(ref) {
		return it.pins.Base.Name + "@" + it.pins.Base.Digest
	}
	return ref
}

// explain tells, when something that was locked cannot be had any more, what is there instead.
func (j *job) explain(ctx context.Context, s *session, it item, err error) error {
	if err == nil || it.pins == nil || !errors.Is(err, fs.ErrNotExist) && !is[*fetch.MismatchError](err) && !errors.Is(err, packages.ErrBase) {
		return err
	}
	now, planErr := s.builder.Plan(ctx, it.target, it.plan)
	if planErr != nil {
		return err // the first error is the better one
	}
	name := lockfile.Name(it.tag(), it.target.Arch)
	if changes := lockfile.ComparePins(*it.pins, now.Pins()); len(changes) > 0 {
		return &lockfile.MismatchError{Target: name, Changes: changes, Command: lockCommand(&j.options, name), Err: err}
	}
	return fmt.Errorf("%w; %s has it locked, and the repositories still name it", err, j.lock.file)
}

// word is how the lock notes an argument of --kernel: with the flavours that narrow it.
func (p *precompile) word(kernel string) string {
	if len(p.flavours) == 0 || !recipe.IsListed(kernel) {
		return kernel
	}
	return kernel + " " + strings.Join(slices.Compact(slices.Sorted(slices.Values(p.flavours))), ",")
}

// words are those of all arguments, sorted.
func (p *precompile) words() (all []string) {
	for _, k := range p.kernels {
		all = append(all, p.word(k))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// lockCommand is the command that locks a target anew with the flags of this call.
func lockCommand(o *buildOptions, name string) string {
	words := []string{"driver-build", "lock"}
	add := func(flag string, values ...string) {
		for _, v := range values {
			if v != "" {
				words = append(words, flag, shellWord(v))
			}
		}
	}
	add("--matrix", o.selection.matrixFile)
	add("--lock", o.lock)
	add("--base", o.base)
	add("--mirror", recipe.PublicMirror(o.mirror))
	add("--flavour", o.selection.flavour...)
	add("--kernel", o.ahead.kernels...)
	add("--kernel-flavour", o.ahead.flavours...)
	for _, f := range []struct {
		flag string
		set  bool
	}{{"--one-image", o.ahead.together}, {"--with-toolchain", o.ahead.toolchain}, {"--with-sources", o.ahead.sources}, {"--allow-incompatible", o.selection.incompatible}} {
		if f.set {
			words = append(words, f.flag)
		}
	}
	return strings.Join(append(words, "--update", name), " ")
}

// shellWord quotes what a shell would take apart.
func shellWord(s string) string {
	if strings.IndexFunc(s, func(r rune) bool {
		return !strings.ContainsRune("%+,-./:=@_~", r) && (r < '0' || r > '9' && r < 'A' || r > 'Z' && r < 'a' || r > 'z')
	}) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
