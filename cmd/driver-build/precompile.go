package main

import (
	"errors"
	"fmt"
	"regexp"
	"slices"

	"github.com/spf13/pflag"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/recipe"
)

// precompile is the part of the flags that says for which kernels modules are compiled ahead of time, and what else goes in.
type precompile struct {
	kernels, flavours, modules   []string
	together, toolchain, sources bool
}

func (p *precompile) flags(f *pflag.FlagSet) {
	f.StringArrayVar(&p.kernels, "kernel", nil, "compile the modules for a kernel ahead of time: its release (uname -r), latest, latest:N or all (repeatable)")
	f.StringArrayVar(&p.flavours, "kernel-flavour", nil, "kernels that latest and all mean, such as cloud-amd64 or aws (repeatable)")
	f.StringSliceVar(&p.modules, "modules", nil, "with --kernel, the modules to compile, such as nvidia,nvidia-uvm (default: all that the sources offer)")
	f.BoolVar(&p.together, "one-image", false, "with --kernel, one image <driver>-<os> for all kernels instead of one <driver>-<kernel>-<os> each")
	f.BoolVar(&p.toolchain, "with-toolchain", false, "with --kernel, put compiler and sources in as well, for nodes with other kernels")
	f.BoolVar(&p.sources, "with-sources", false, "with --kernel, put the sources of the kernel modules in as well, for drivers that build on them (GDS, GDRCopy)")
}

var moduleName = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,63}$`)

// listed says whether the kernels have to be looked up in the system's repositories.
func (p *precompile) listed() bool { return slices.ContainsFunc(p.kernels, recipe.IsListed) }

func (p *precompile) check() error {
	if len(p.kernels) == 0 {
		for _, c := range []struct {
			flag  string
			given bool
		}{
			{"--kernel-flavour", len(p.flavours) > 0}, {"--modules", len(p.modules) > 0}, {"--one-image", p.together},
			{"--with-toolchain", p.toolchain}, {"--with-sources", p.sources},
		} {
			if c.given {
				return fmt.Errorf("%s says something about modules that are compiled ahead of time: give --kernel too", c.flag)
			}
		}
		return nil
	}
	if len(p.flavours) > 0 && !p.listed() {
		return errors.New("--kernel-flavour narrows --kernel latest and all: a release has its flavour in its name")
	}
	for _, m := range p.modules {
		if !moduleName.MatchString(m) {
			return fmt.Errorf("--modules: %q is no name of a module: give names such as nvidia,nvidia-uvm", m)
		}
	}
	if len(p.modules) > 0 && (!slices.Contains(p.modules, "nvidia") || !slices.Contains(p.modules, "nvidia-uvm")) {
		return errors.New("--modules: nvidia and nvidia-uvm must be among them: nothing works without")
	}
	return nil
}

// items turns targets into images: as they are without --kernel, else one for each kernel or one for all. list asks a target's
// repositories for the kernels that they have; it may be nil unless p.listed.
func (p *precompile) items(targets []matrix.Target, plan recipe.Options, s selection, list func(matrix.Target) ([]distros.Kernel, error)) ([]item, error) {
	var items []item
	for _, t := range targets {
		if len(p.kernels) == 0 {
			items = append(items, item{target: t, plan: plan})
			continue
		}
		releases, err := p.releases(t, s.incompatible, list)
		if err != nil {
			return nil, err
		}
		o := plan
		o.Together, o.Toolchain, o.Sources, o.Modules, o.Flavours = p.together, p.toolchain, p.sources, p.modules, s.flavour
		if p.together {
			o.Kernels = releases
			items = append(items, item{target: t, plan: o})
			continue
		}
		for _, release := range releases {
			o.Kernels = []string{release}
			items = append(items, item{target: t, plan: o})
		}
	}
	return items, nil
}

// releases are the kernels of a target. Of those that the repositories list, kernels that the driver does not compile on are
// passed over; one that was named is refused.
func (p *precompile) releases(t matrix.Target, incompatible bool, list func(matrix.Target) ([]distros.Kernel, error)) ([]string, error) {
	var offered []distros.Kernel
	usual := ""
	if p.listed() {
		d, err := distros.Lookup(t.System.ID)
		if err != nil {
			return nil, err
		}
		usual = d.KernelFlavour(t.Arch)
		all, err := list(t)
		if err != nil {
			return nil, err
		}
		offered = slices.DeleteFunc(slices.Clone(all), func(k distros.Kernel) bool {
			return !incompatible && recipe.CheckKernel(t.Driver, k.Release) != nil
		})
		if len(offered) == 0 && len(all) > 0 {
			return nil, usageError{fmt.Errorf("--kernel: %w; the repositories have no other", recipe.CheckKernel(t.Driver, all[0].Release))}
		}
	}
	for _, spec := range p.kernels {
		if recipe.IsListed(spec) || incompatible {
			continue
		}
		if err := recipe.CheckKernel(t.Driver, spec); err != nil {
			return nil, usageError{fmt.Errorf("--kernel %s: %w; --allow-incompatible builds it all the same", spec, err)}
		}
	}
	releases, err := recipe.SelectKernels(offered, p.kernels, p.flavours, usual)
	if err != nil {
		return nil, usageError{fmt.Errorf("%s %s: %w", t.Tag(), t.Arch, err)}
	}
	return releases, nil
}
