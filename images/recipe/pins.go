package recipe

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/releases"
)

// Pins is the part of a recipe that depends on when registries and repositories were asked.
type Pins struct {
	Base     Base                         `json:"base,omitzero"`
	Packages []distros.Package            `json:"packages"`           // besides the driver
	Compiler []distros.Package            `json:"compiler,omitempty"` // what compiles modules for the image
	Headers  map[string][]distros.Package `json:"headers,omitempty"`  // by the release of the kernel
	Toolkits map[string]Base              `json:"toolkits,omitempty"` // by the release of the kernel: images with its headers and compiler
	Driver   []distros.Package            `json:"driver"`             // nil for a .run archive

	Companions []distros.Package `json:"companions,omitempty"` // with the sources of companions
}

// New makes the recipe of a target from pins. It asks no registry and no repository: whether the base and the
// files still exist shows when they are fetched. The caller makes sure that the pins answer the request of
// that target and those options. The base is read from where the pins say; those that an earlier run kept do
// not say, and then it is read by its digest.
func New(t matrix.Target, o Options, p Pins, programs []Binary, by BuilderInfo) (*Recipe, error) {
	r := targetRecipe(t, o)
	_, source, err := wants(t, o, r)
	if err != nil {
		return nil, err
	}
	r.Entrypoint, r.Builder, r.Base = programs, by, p.Base
	switch {
	case p.Base.Location != "":
	case oci.IsLocal(o.Base):
		r.Base.Location = o.Base
	case p.Base.Name == "":
		return nil, errors.New("the base was an image of the machine that planned: give --base")
	default:
		r.Base.Location = p.Base.Name + "@" + p.Base.Digest
	}
	r.Packages, r.Compiler = slices.Clone(p.Packages), slices.Clone(p.Compiler)
	r.Source = source
	r.Source.Packages = slices.Clone(p.Driver)
	if err := r.pinCompanions(t, p.Companions); err != nil {
		return nil, err
	}
	r.Patches = patches(t.Driver, source, r.Flavours)
	for i, k := range r.Kernels {
		if len(o.KernelFrom) > 0 {
			if r.Kernels[i].Toolkit, err = p.toolkit(k.Release, o.KernelFrom); err != nil {
				return nil, err
			}
			continue
		}
		headers, ok := p.Headers[k.Release]
		if !ok {
			return nil, fmt.Errorf("headers of kernel %s were not planned", k.Release)
		}
		r.Kernels[i].Headers = slices.Clone(headers)
	}
	return r, nil
}

// toolkit is the image that a kernel comes from, with the place to read it from. A tag may have moved since
// the plan, so an image of a registry is read by its digest.
func (p Pins) toolkit(release string, refs []string) (*Base, error) {
	pinned, ok := p.Toolkits[release]
	if !ok {
		return nil, fmt.Errorf("the image with kernel %s was not planned", release)
	}
	switch local := slices.DeleteFunc(slices.Clone(refs), func(ref string) bool { return !oci.IsLocal(ref) }); {
	case pinned.Location != "":
	case pinned.Name != "":
		pinned.Location = pinned.Name + "@" + pinned.Digest
	case len(local) == 1:
		pinned.Location = local[0]
	default:
		return nil, fmt.Errorf("the image with kernel %s was a file of the machine that planned: give --kernel-from with the one that has the digest %s", release, pinned.Digest)
	}
	return &pinned, nil
}

// Name is the Target of a target's recipe, which progress and messages use before there is one.
func Name(t matrix.Target, o Options) string { return targetRecipe(t, o).Target() }

// targetRecipe is the part of a recipe that follows from the matrix and the options alone.
func targetRecipe(t matrix.Target, o Options) *Recipe {
	d := t.Distro
	r := &Recipe{
		Distro: d, Schema: Version, System: t.System.ID, Driver: t.Driver.Version, Branch: t.Driver.Branch, Arch: t.Arch, Tag: t.Tag(),
		Profile: cmp.Or(o.Profile, Full), Flavours: t.Flavours, Links: d.Links(), LibDir: d.LibDir(t.Arch), LibDir32: d.LibDir32(t.Arch),
		Compression: cmp.Or(o.Compression, Gzip), Epoch: o.Epoch, Kernel: t.Driver.Kernel, Overridden: t.Overridden,
		CUDA: releases.CUDAOf(t.Driver.Version, t.Driver.CUDA), Advisories: releases.AdvisoriesOf(t.Driver),
		VGPU: t.Driver.VGPU, Toolchain: true, Sources: true, Aliases: AliasTags(t), Repositories: t.System.Repositories, OnlyThese: t.System.ReplaceRepositories,
	}
	r.Fabric = r.Profile.Fabric(t.Driver.Components.For(t.Arch))
	if len(o.Kernels) > 0 {
		r.precompiled(t, o)
	}
	r.companions(t)
	return r
}

// Pins are those of a recipe, without the credentials in addresses.
func (r *Recipe) Pins() Pins {
	p := Pins{Base: r.Base, Packages: r.Packages, Compiler: r.Compiler, Driver: r.Source.Packages, Companions: r.companionPins()}
	for _, k := range r.Kernels {
		if k.Toolkit != nil {
			p.addToolkit(k.Release, *k.Toolkit)
			continue
		}
		if p.Headers == nil {
			p.Headers = map[string][]distros.Package{}
		}
		p.Headers[k.Release] = k.Headers
	}
	return p.Public()
}

func (p *Pins) addToolkit(release string, image Base) {
	if p.Toolkits == nil {
		p.Toolkits = map[string]Base{}
	}
	p.Toolkits[release] = image
}

// All lists all packages; some may be there twice.
func (p Pins) All() []distros.Package {
	all := slices.Concat(p.Packages, p.Compiler, p.Driver, p.Companions)
	for _, release := range slices.Sorted(maps.Keys(p.Headers)) {
		all = append(all, p.Headers[release]...)
	}
	return all
}

// Public are the pins as a file may keep them: without the credentials that addresses may hold, and without
// where this run read the base from.
func (p Pins) Public() Pins {
	public := Pins{Base: Base{Name: p.Base.Name, Digest: p.Base.Digest}, Driver: publicPackages(p.Driver)}
	public.Packages, public.Compiler = publicPackages(p.Packages), publicPackages(p.Compiler)
	public.Companions = publicPackages(p.Companions)
	for release, image := range p.Toolkits {
		public.addToolkit(release, Base{Name: image.Name, Digest: image.Digest})
	}
	for release, list := range p.Headers {
		if public.Headers == nil {
			public.Headers = map[string][]distros.Package{}
		}
		public.Headers[release] = publicPackages(list)
	}
	return public
}
