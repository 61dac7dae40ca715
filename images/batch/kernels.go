package batch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/recipe"
)

// Kernels say for which kernels modules are compiled ahead of time, and what else goes into these
// images.
type Kernels struct {
	Specs []string // as [recipe.SelectKernels] takes them; empty: the only kernel of From
	// images with headers and compiler, which are asked instead of the package repositories
	From      []string
	Flavours  []string // of the kernels that "latest" and "all" mean
	Modules   []string // to compile; empty: all that the sources offer
	Together  bool     // one image for all kernels instead of one image a kernel
	Thin      bool     // without kernels: neither compiler nor sources
	Toolchain bool     // compiler and sources go in as well
	Sources   bool     // the sources of the kernel modules go in as well
	KMM       bool     // the modules are laid out for Kernel Module Management too
}

var (
	moduleName    = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,63}$`)
	kernelFlavour = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+-]{0,63}$`)
)

// Compile says whether modules are compiled ahead of time.
func (k *Kernels) Compile() bool { return len(k.Specs) > 0 || len(k.From) > 0 }

// Words are the specs; "" stands for the only kernel of From.
func (k *Kernels) Words() []string {
	if len(k.Specs) == 0 && len(k.From) > 0 {
		return []string{""}
	}
	return k.Specs
}

// IsListed says whether a word means other kernels when more are offered.
func IsListed(word string) bool { return word == "" || recipe.IsListed(word) }

// Check finds flags that say nothing without others, and names that cannot be right.
func (k *Kernels) Check() error {
	if !k.Compile() {
		given := map[string]bool{
			"--kernel-flavour": len(
				k.Flavours,
			) > 0, "--modules": len(k.Modules) > 0, "--one-image": k.Together,
			"--with-toolchain": k.Toolchain, "--with-sources": k.Sources, "--kmm": k.KMM,
		}
		for _, flag := range slices.Sorted(maps.Keys(given)) {
			if given[flag] {
				return fmt.Errorf(
					"%s says something about modules that are compiled ahead of time: give --kernel too",
					flag,
				)
			}
		}
		return nil
	}
	if k.Thin {
		return errors.New(
			"--no-toolchain is about images without modules: with --kernel, only --with-toolchain puts one in",
		)
	}
	for _, spec := range k.Specs {
		if recipe.IsListed(spec) {
			continue
		}
		if _, err := recipe.SelectKernels(nil, []string{spec}, nil, ""); err != nil {
			return fmt.Errorf("--kernel: %w", err)
		}
	}
	if len(k.Flavours) > 0 && !slices.ContainsFunc(k.Words(), IsListed) {
		return errors.New(
			"--kernel-flavour narrows --kernel latest and all: a release has its flavour in its name",
		)
	}
	for _, m := range k.Modules {
		if !moduleName.MatchString(m) {
			return fmt.Errorf(
				"--modules: %q is no name of a module: give names such as nvidia,nvidia-uvm",
				m,
			)
		}
	}
	for _, name := range driverinfo.RequiredModules() {
		if len(k.Modules) > 0 && !slices.Contains(k.Modules, name) {
			return fmt.Errorf(
				"--modules: %s must be among them: nothing works without",
				strings.Join(driverinfo.RequiredModules(), " and "),
			)
		}
	}
	return CheckKernelFlavours(k.Flavours)
}

// CheckProfile finds what an image of modules cannot have.
func (b *Batch) CheckProfile() error {
	switch k := &b.Kernels; {
	case b.Plan.Profile != recipe.ModulesOnly:
		return nil
	case !k.Compile():
		return failure.New(
			failure.Usage,
			"--profile modules is the modules for a kernel and nothing else: give --kernel RELEASE or latest too",
		)
	case k.Toolchain || k.Sources || k.KMM:
		return failure.New(
			failure.Usage,
			"--profile modules is modules and nothing else: leave out --with-toolchain, --with-sources and --kmm",
		)
	}
	return nil
}

// CheckKernelFlavours returns an error for a text that cannot be the flavour of a kernel.
func CheckKernelFlavours(flavours []string) error {
	for _, f := range flavours {
		if !kernelFlavour.MatchString(f) {
			return fmt.Errorf(
				"--kernel-flavour %q is no flavour of a kernel: driver-build kernels lists them",
				f,
			)
		}
	}
	return nil
}

// ListKernels gives the kernels that the repositories of a target, or images of --kernel-from,
// offer.
type ListKernels func(matrix.Target) ([]distros.Kernel, error)

// NeedsIndex says whether only the repositories, or images of --kernel-from, know which kernels are
// meant.
func (k *Kernels) NeedsIndex() bool {
	return len(k.From) > 0 || slices.ContainsFunc(k.Specs, recipe.IsListed)
}

// Offered lists the kernels that a batch chooses from.
func (b *Batch) Offered(ctx context.Context, plans *Plans) ListKernels {
	o := b.Plan
	o.KernelFrom = b.Kernels.From
	return func(t matrix.Target) ([]distros.Kernel, error) { return plans.Offered(ctx, t, o) }
}

// expand turns a target into images: without kernels one image, else one for each kernel, or one
// for all kernels.
func (b *Batch) expand(t matrix.Target, k *Kernels, list ListKernels) (all []Image, err error) {
	if !k.Compile() {
		o := b.Plan
		o.Thin = k.Thin
		return []Image{{Target: t, Plan: o}}, nil
	}
	releases, err := k.Releases(t, b.Selection, list)
	if err != nil {
		return nil, err
	}
	if both := recipe.CompiledFlavours(t, b.Selection.Flavours); k.KMM && len(both) > 1 {
		return nil, failure.Errorf(
			failure.Usage,
			"--kmm: KMM finds the modules of a kernel in one folder, and %s has those of two flavours (%s): give one --flavour",
			t.Tag(),
			strings.Join(both, ", "),
		)
	}
	o := b.Plan
	o.Together = k.Together
	o.Toolchain = k.Toolchain
	o.Sources = k.Sources
	o.KMM = k.KMM
	o.Modules = k.Modules
	o.Flavours = b.Selection.Flavours
	o.KernelFrom = b.Kernels.From
	o.Kernels = releases
	if k.Together {
		return []Image{{Target: t, Plan: o}}, nil
	}
	for _, release := range releases {
		o.Kernels = []string{release}
		all = append(all, Image{Target: t, Plan: o})
	}
	return all, nil
}

// Releases are the kernels of a target. Kernels that are listed and the driver does not compile on
// are left out; such a kernel that the user named is refused.
func (k *Kernels) Releases(t matrix.Target, s matrix.Selection, list ListKernels) (releases []string, err error) {
	refuse := func(format string, args ...any) error { return failure.Errorf(failure.Usage, format, args...) }
	suits := func(k distros.Kernel) error {
		if s.AllowIncompatible {
			return nil
		}
		return recipe.CheckFlavours(t.Driver, k, recipe.CompiledFlavours(t, s.Flavours))
	}
	var all, offered []distros.Kernel
	usual := ""
	from := strings.Join(k.From, " and ")
	if k.NeedsIndex() {
		if err := recipe.CheckPackaged(t.Distro); err != nil && from == "" {
			return nil, refuse("%s %s: --kernel: %w", t.Tag(), t.Arch, err)
		}
		usual = t.Distro.KernelFlavour(t.Arch)
		all, err = list(t)
		if err != nil {
			return nil, err
		}
		offered = slices.DeleteFunc(slices.Clone(all), func(k distros.Kernel) bool { return suits(k) != nil })
		if len(offered) == 0 && len(all) > 0 {
			return nil, refuse("--kernel: %w; the %s have no other", suits(all[0]), k.Offering())
		}
	}
	for _, spec := range k.Specs {
		if recipe.IsListed(spec) {
			continue
		}
		if there := releasesOf(all); from != "" && !slices.Contains(there, spec) {
			return nil, refuse("--kernel %w: %s has no complete headers of %s; there are %s", recipe.ErrKernel, from, spec,
				strings.Join(there, ", "))
		}
		if err := suits(distros.Kernel{Release: spec}); err != nil {
			return nil, refuse("--kernel %s: %w; --allow-incompatible builds it all the same", spec, err)
		}
	}
	if len(k.Specs) == 0 { // the only kernel of the images
		only := releasesOf(slices.DeleteFunc(offered, func(o distros.Kernel) bool { return !Wanted(k.Flavours, o.Flavour) }))
		switch len(only) {
		case 1:
			return only, nil
		case 0:
			return nil, refuse("--kernel-flavour: %w: %s has none of the flavour %s", recipe.ErrKernel, from, strings.Join(k.Flavours, ", "))
		}
		return nil, refuse("--kernel-from: %s has several kernels: name them with --kernel RELEASE, or give --kernel latest or all: %s",
			from, strings.Join(only, ", "))
	}
	releases, err = recipe.SelectKernels(offered, k.Specs, k.Flavours, usual)
	if err != nil {
		return nil, refuse("%s %s: %w", t.Tag(), t.Arch, err)
	}
	return releases, nil
}

// Offering names what offers the kernels.
func (k *Kernels) Offering() string {
	if len(k.From) > 0 {
		return "images"
	}
	return "repositories"
}

func releasesOf(kernels []distros.Kernel) (all []string) {
	for _, k := range kernels {
		all = append(all, k.Release)
	}
	return all
}

// LockWord is how the lock notes a spec: with the flavours that narrow it, and with the images that
// it is about.
func (k *Kernels) LockWord(spec string) string {
	if !IsListed(spec) {
		return spec
	}
	words := []string{cmp.Or(spec, "only")}
	if len(k.Flavours) > 0 {
		words = append(
			words,
			strings.Join(slices.Compact(slices.Sorted(slices.Values(k.Flavours))), ","),
		)
	}
	for _, ref := range recipe.PublicImages(k.From) {
		words = append(words, "from", cmp.Or(ref, "file"))
	}
	return strings.Join(words, " ")
}

// LockWords are those of all specs, sorted, each once.
func (k *Kernels) LockWords() (all []string) {
	for _, spec := range k.Words() {
		all = append(all, k.LockWord(spec))
	}
	slices.Sort(all)
	return slices.Compact(all)
}
