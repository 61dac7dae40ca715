package packages

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/progress"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/rootfs"
)

// Repositories are those of a base, verified but not yet read.
type Repositories interface {
	Digest() string                           // of everything that resolving can depend on
	Client(url string) (*fetch.Client, error) // as Reader has it
	load(ctx context.Context) (index, error)
}

// index is what the repositories offer.
type index interface {
	Notes() []string
	// resolve is the closure over what the base has; wants in the manager's own words.
	resolve(ctx context.Context, want []string) ([]distros.Package, error)
	// find gives one package alone. A want without a version means the one of a driver's time.
	find(want, driver string) (*distros.Package, error)
	// kernels lists the kernels with headers, in any order.
	kernels(d distros.Distro, arch string) []Kernel
}

// Kernel is a kernel with the address of its headers.
type Kernel struct {
	distros.Kernel
	URL string
}

// kernelList collects the kernels of an index.
type kernelList struct {
	with, without []Kernel                    // whose kernel itself is there too, and the others
	usual         func(flavour string) string // the series of the kernel that the system installs for a flavour; "" if unknown
	series        map[string]string           // by flavour
}

func (l *kernelList) add(k Kernel, whole bool) {
	if l.series == nil {
		l.series = map[string]string{}
	}
	if _, ok := l.series[k.Flavour]; !ok {
		l.series[k.Flavour] = l.usual(k.Flavour)
	}
	k.Default = l.series[k.Flavour] != "" && recipe.SeriesOf(k.Release) == l.series[k.Flavour]
	if whole {
		l.with = append(l.with, k)
	} else {
		l.without = append(l.without, k)
	}
}

// all returns the kernels. Where the repositories have kernels as well as headers, headers without their kernel (old
// ones that were left behind) do not count; a repository that a site keeps for headers has no kernels.
func (l *kernelList) all() []Kernel {
	if len(l.with) == 0 {
		return l.without
	}
	return l.with
}

// Open opens the repositories of a base; base is the tree of its facts.
func Open(ctx context.Context, env Env, s Sources, base *rootfs.Tree) (Repositories, error) {
	m, err := managerOf(s.Distro)
	if err != nil {
		return nil, err
	}
	repos, err := m.open(ctx, env, s, base)
	if err != nil {
		return nil, fmt.Errorf("package repositories of %s: %w", s.Distro.ID(), err)
	}
	return repos, nil
}

// Kernels lists the kernels that the repositories have headers of, in any order.
func Kernels(ctx context.Context, repos Repositories, d distros.Distro, arch string, step *progress.Step) ([]Kernel, error) {
	x, err := loaded(ctx, repos, step)
	if err != nil {
		return nil, fmt.Errorf("package repositories of %s: %w", d.ID(), err)
	}
	return x.kernels(d, arch), nil
}

func loaded(ctx context.Context, repos Repositories, step *progress.Step) (index, error) {
	x, err := repos.load(ctx)
	if err != nil {
		return nil, err
	}
	for _, note := range x.Notes() {
		step.Note(note)
	}
	return x, nil
}

// Resolve finds the packages that are wanted, and what they need; driver is the version whose packages are
// among them. The base of the pins is left empty.
func Resolve(ctx context.Context, repos Repositories, w recipe.Wants, driver string, step *progress.Step) (p recipe.Pins, err error) {
	x, err := loaded(ctx, repos, step)
	if err != nil {
		return p, err
	}
	if p.Packages, err = x.resolve(ctx, w.Image); err != nil {
		return p, err
	}
	if len(w.Compiler) > 0 {
		if err := resolveCompiler(ctx, x, w, &p); err != nil {
			return p, err
		}
	}
	for _, want := range w.Driver {
		found, err := x.find(want, driver)
		if err != nil {
			return p, err
		}
		p.Driver = append(p.Driver, *found)
	}
	for _, want := range w.Companions {
		found, err := x.find(want, "")
		if err != nil {
			return p, err
		}
		p.Companions = append(p.Companions, *found)
	}
	slices.SortFunc(p.Driver, func(a, b distros.Package) int { return strings.Compare(a.Name, b.Name) })
	return p, nil
}

// resolveCompiler resolves what compiling modules for the image takes: a compiler, and the headers of each
// kernel, which come with what they need beyond the compiler.
func resolveCompiler(ctx context.Context, x index, w recipe.Wants, p *recipe.Pins) (err error) {
	if p.Compiler, err = x.resolve(ctx, w.Compiler); err != nil {
		return err
	}
	there := map[string]bool{}
	for _, c := range p.Compiler {
		there[c.Digest()] = true
	}
	p.Headers = map[string][]distros.Package{}
	for release, headers := range w.Headers {
		all, err := x.resolve(ctx, slices.Concat(w.Compiler, headers))
		if err != nil {
			return fmt.Errorf("headers of kernel %s: %w; driver-build kernels lists the kernels that the repositories have", release, err)
		}
		p.Headers[release] = slices.DeleteFunc(all, func(c distros.Package) bool { return there[c.Digest()] })
	}
	return nil
}
