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

// Repositories are those of a base, verified. Their indexes are not read before something asks for
// packages.
type Repositories interface {
	Digest() string                           // of everything that resolving can depend on
	Client(url string) (*fetch.Client, error) // as Reader has it

	// load reads the indexes, for the methods below, and returns what people should know of them.
	load(ctx context.Context) (notes []string, err error)
	// resolve is the closure over what the base has or, if there are such names, over those that
	// are assumed to be installed; wants in the manager's own words.
	resolve(ctx context.Context, want, assumed []string) ([]distros.Package, error)
	// find gives one package alone. A want without a version means the one of a driver's time.
	find(want, driver string) (*distros.Package, error)
	// alone gives the package that a kernel's part is in, in the words of distros, without what it
	// needs.
	alone(want string) (*distros.Package, bool)
	// kernels lists the kernels with headers, in any order.
	kernels(d distros.Distro) []Kernel
	// signedModules lists the kernel modules that the distribution signed; of one package the newest
	// version comes first.
	signedModules() []signedModules
}

// Kernel is a kernel with the address of its headers.
type Kernel struct {
	distros.Kernel
	URL string

	whole bool // the kernel itself is there too
}

// usable returns the kernels that count, and marks those of the series that the system installs for
// their flavour; "" is unknown. Where the repositories have kernels as well as headers, headers
// without their kernel (old ones that were left behind) do not count; a repository that a site
// keeps for headers has no kernels.
func usable(all []Kernel, series func(flavour string) string) []Kernel {
	if slices.ContainsFunc(all, func(k Kernel) bool { return k.whole }) {
		all = slices.DeleteFunc(all, func(k Kernel) bool { return !k.whole })
	}
	for i, k := range all {
		usual := series(k.Flavour)
		all[i].Default = usual != "" && recipe.SeriesOf(k.Release) == usual
	}
	return all
}

// Open opens the repositories of a base; base is the tree of its facts.
func Open(ctx context.Context, env Env, s Sources, base *rootfs.Tree) (Repositories, error) {
	repos, err := managerOf(s.Distro).open(ctx, env, s, base)
	if err != nil {
		return nil, fmt.Errorf("package repositories of %s: %w", s.Distro.ID(), err)
	}
	return repos, nil
}

// Kernels lists the kernels that the repositories have headers of, in any order, with the drivers
// whose modules for them the distribution signed.
func Kernels(
	ctx context.Context,
	repos Repositories,
	d distros.Distro,
	step *progress.Step,
) ([]Kernel, error) {
	if err := load(ctx, repos, step); err != nil {
		return nil, fmt.Errorf("package repositories of %s: %w", d.ID(), err)
	}
	kernels := repos.kernels(d)
	addSigned(kernels, repos.signedModules())
	return kernels, nil
}

func load(ctx context.Context, repos Repositories, step *progress.Step) error {
	notes, err := repos.load(ctx)
	for _, note := range notes {
		step.Note(note)
	}
	return err
}

// Resolve finds the packages that are wanted, and what they need; driver is the version whose
// packages are among them. The base of the pins is left empty.
func Resolve(
	ctx context.Context,
	repos Repositories,
	w recipe.Wants,
	driver string,
	step *progress.Step,
) (p recipe.Pins, err error) {
	if err := load(ctx, repos, step); err != nil {
		return p, err
	}
	p.Packages, err = repos.resolve(ctx, w.Image, w.Assumed)
	if err != nil {
		return p, err
	}
	if len(w.Compiler) > 0 {
		if err := resolveCompiler(ctx, repos, w, &p); err != nil {
			return p, err
		}
	}
	if len(w.Signed) > 0 {
		p.Signed, err = resolveSigned(repos, w.Signed, driver)
		if err != nil {
			return p, err
		}
	}
	p.Driver, err = findAll(repos, w.Driver, driver)
	if err != nil {
		return p, err
	}
	byName := func(a, b distros.Package) int { return strings.Compare(a.Name, b.Name) }
	slices.SortFunc(p.Driver, byName)
	p.Companions, err = findAll(repos, w.Companions, "")
	return p, err
}

// KernelPackages returns the packages that a kernel of a system consists of, without what their scripts
// need to install it. Without the package of the kernel itself it is *distros.UnresolvableError.
func KernelPackages(
	ctx context.Context,
	repos Repositories,
	d distros.Distro,
	release string,
	step *progress.Step,
) (all []distros.Package, err error) {
	err = load(ctx, repos, step)
	if err != nil {
		return nil, err
	}
	images := d.KernelImages(release)
	if len(images) == 0 {
		return nil, &distros.UnresolvableError{
			Relation: release,
			Reason:   "which is no release of a kernel of " + d.ID(),
		}
	}
	for _, want := range images {
		p, ok := repos.alone(want)
		if ok {
			all = append(all, *p)
			break
		}
	}
	if len(all) == 0 {
		return nil, &distros.UnresolvableError{
			Relation: images[0],
			Reason:   "no repository has the kernel",
		}
	}
	for _, want := range d.KernelParts(release) {
		p, ok := repos.alone(want)
		if ok {
			all = append(all, *p)
		}
	}
	return all, nil
}

func findAll(repos Repositories, wants []string, driver string) (all []distros.Package, err error) {
	for _, want := range wants {
		found, err := repos.find(want, driver)
		if err != nil {
			return nil, err
		}
		all = append(all, *found)
	}
	return all, nil
}

// resolveCompiler resolves what compiling modules for the image takes: a compiler, and the headers
// of each kernel, which come with what they need beyond the compiler.
func resolveCompiler(
	ctx context.Context,
	repos Repositories,
	w recipe.Wants,
	p *recipe.Pins,
) (err error) {
	p.Compiler, err = repos.resolve(ctx, w.Compiler, nil)
	if err != nil {
		return err
	}
	there := map[string]bool{}
	for _, c := range p.Compiler {
		there[c.Digest()] = true
	}
	p.Headers = map[string][]distros.Package{}
	for release, headers := range w.Headers {
		all, err := repos.resolve(ctx, slices.Concat(w.Compiler, headers), nil)
		if err != nil {
			return fmt.Errorf("headers of kernel %s: %w; driver-build kernels lists the kernels that the repositories have",
				release, err)
		}
		isThere := func(c distros.Package) bool { return there[c.Digest()] }
		p.Headers[release] = slices.DeleteFunc(all, isThere)
	}
	return nil
}
