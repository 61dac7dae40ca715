package recipe

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/releases"
)

// Pins are what registries and repositories answered to a [Request].
type Pins struct {
	Base     Base              `json:"base,omitzero"`
	Packages []distros.Package `json:"packages"` // besides the driver
	// what compiles modules for the image
	Compiler []distros.Package `json:"compiler,omitempty"`
	// by the release of the kernel
	Headers map[string][]distros.Package `json:"headers,omitempty"`
	// by the release of the kernel: images with its headers and compiler
	Toolkits   map[string]Base   `json:"toolkits,omitempty"`
	Signed     SignedPins        `json:"signed,omitempty"`
	Driver     []distros.Package `json:"driver"` // nil for a .run archive
	Companions []distros.Package `json:"companions,omitempty"`
}

// SignedPins are the packages with modules that the distribution signed, by the release of the
// kernel and by flavour.
type SignedPins map[string]map[string][]distros.Package

// New is the part of a target's recipe that follows from the matrix and the options alone: what is
// asked for, and nothing that depends on the answer. It uses no network and reads nothing.
func New(t matrix.Target, o Options) (*Recipe, error) {
	d := t.Distro
	r := &Recipe{
		Distro:       d,
		Schema:       Version,
		System:       t.System.ID,
		Driver:       t.Driver.Version,
		Branch:       t.Driver.Branch,
		Arch:         t.Arch,
		Profile:      cmp.Or(o.Profile, Full),
		Flavours:     t.Flavours,
		Links:        d.Links(),
		LibDir:       d.LibDir(t.Arch),
		LibDir32:     d.LibDir32(t.Arch),
		Compression:  o.compression(d),
		Epoch:        o.Epoch,
		Kernel:       t.Driver.Kernel,
		Overridden:   t.Overridden,
		CUDA:         releases.CUDAOf(t.Driver.Version, t.Driver.CUDA),
		Advisories:   releases.AdvisoriesOf(t.Driver),
		VGPU:         t.Driver.VGPU,
		Toolchain:    true,
		Sources:      true,
		Repositories: t.System.Repositories,
		OnlyThese:    t.System.ReplaceRepositories,
		Base:         Base{Location: cmp.Or(o.Base, t.System.Base)},
	}
	r.Tag, r.Aliases = Tags(t, o)
	r.Fabric = r.Profile.Fabric(t.Driver.Components.For(t.Arch))
	if len(o.Kernels) > 0 {
		r.precompiled(t, o)
	} else if o.Thin {
		r.Toolchain = false
		r.Sources = false
	}
	r.Distroless = !r.Toolchain && o.Base == "" && len(d.Distroless(t.Arch).Packages) > 0
	err := r.ask(t, o)
	if err != nil {
		return nil, err
	}
	if !o.SignedModules { // patches are for what is compiled
		r.Patches = patches(t.Driver, r.Source, r.Flavours)
	}
	if r.Profile == ModulesOnly {
		r.bare()
	}
	return r, nil
}

// Pin completes a recipe of New with the answer to what it asks. It asks no registry and no
// repository: whether the base and the files still exist shows when they are fetched.
func (r *Recipe) Pin(o Options, p Pins) error {
	base, ok := p.Base.located(r.Base.Location)
	if !ok {
		return errors.New("the base was an image of the machine that planned: give --base")
	}
	r.Base = base
	r.Packages = slices.Clone(p.Packages)
	r.Compiler = slices.Clone(p.Compiler)
	r.Source.Packages = slices.Clone(p.Driver)
	if r.Profile == ModulesOnly {
		r.Packages = nil
	}
	for i, c := range r.Companions {
		if c.File != nil {
			continue
		}
		found := slices.IndexFunc(
			p.Companions,
			func(q distros.Package) bool { return q.Name == c.Package.Name },
		)
		if found < 0 {
			return fmt.Errorf("the package of companion %s %s was not planned", c.Name, c.Version)
		}
		r.Companions[i].Package = &p.Companions[found]
	}
	for i := range r.Kernels {
		err := r.Kernels[i].pin(o.KernelFrom, p)
		if err != nil {
			return err
		}
	}
	return nil
}

// pin completes a kernel with its headers, or with the image of from that has them, or with the
// modules that the distribution signed.
func (k *Kernel) pin(from []string, p Pins) error {
	headers, packaged := p.Headers[k.Release]
	toolkit, inImage := p.Toolkits[k.Release]
	signed, isSigned := p.Signed[k.Release]
	switch {
	case isSigned:
		k.Signed = signed
		return nil
	case len(from) == 0 && packaged:
		k.Headers = slices.Clone(headers)
		return nil
	case len(from) == 0 || !inImage:
		return fmt.Errorf("headers of kernel %s were not planned", k.Release)
	}
	located, ok := toolkit.located(from...)
	if !ok {
		return fmt.Errorf(
			"the image with kernel %s was a file of the machine that planned: give --kernel-from "+
				"with the one that has the digest %s",
			k.Release,
			toolkit.Digest,
		)
	}
	k.Toolkit = &located
	return nil
}

// located is an image with the place to read it from: where the plan read it or, for an image that
// an earlier run pinned, the registry, by its digest, because a tag may have moved since; an image
// without a name is the local one of refs.
func (b Base) located(refs ...string) (Base, bool) {
	local := slices.DeleteFunc(
		slices.Clone(refs),
		func(ref string) bool { return !oci.IsLocal(ref) },
	)
	switch {
	case b.Location != "":
	case b.Name != "":
		b.Location = b.Name + "@" + b.Digest
	case len(local) == 1:
		b.Location = local[0]
	default:
		return b, false
	}
	return b, true
}

// Pins are those of a recipe, as a later run may use them: without where this run reads images
// from.
func (r *Recipe) Pins() Pins {
	p := Pins{
		Base:       Base{Name: r.Base.Name, Digest: r.Base.Digest},
		Packages:   r.Packages,
		Compiler:   r.Compiler,
		Driver:     r.Source.Packages,
		Companions: r.companionPins(),
		Headers:    map[string][]distros.Package{},
		Toolkits:   map[string]Base{},
	}
	for _, k := range r.Kernels {
		switch {
		case k.Signed != nil:
			if p.Signed == nil {
				p.Signed = SignedPins{}
			}
			p.Signed[k.Release] = k.Signed
		case k.Toolkit != nil:
			p.Toolkits[k.Release] = Base{Name: k.Toolkit.Name, Digest: k.Toolkit.Digest}
		default:
			p.Headers[k.Release] = k.Headers
		}
	}
	return p
}
