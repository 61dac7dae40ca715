package provenance

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/images/imagename"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/recipe"
)

var (
	versionShape   = regexp.MustCompile(`^[0-9]{1,4}(\.[0-9]{1,4}){1,2}$`) // of drivers; it becomes part of paths
	companionShape = regexp.MustCompile(`^[0-9]{1,4}(\.[0-9]{1,4}){1,3}$`)
	moduleShape    = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,63}$`) // it becomes an argument of the compile
	sha256Shape    = regexp.MustCompile(`^[0-9a-f]{64}$`)
	sha512Shape    = regexp.MustCompile(`^[0-9a-f]{128}$`)
)

// lastEpoch is the end of the year 9999, after which times have no text.
var lastEpoch = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC).Unix()

// Read is the inverse of New: it returns the recipe and the run that a predicate states, so that the image
// can be built again. It vouches for nothing that the predicate says. It refuses, with ErrFormat, a predicate
// with anything that New would not write: a parameter that nobody understands may be one that the image
// depends on. The programs are sorted by name and have no Path, the base has no Location, and packages do not
// say what they replace.
func Read(data []byte) (*recipe.Recipe, Run, error) {
	if _, err := decode(data); err != nil {
		return nil, Run{}, err
	}
	var p Predicate
	if err := json.Unmarshal(data, &p); err != nil {
		return nil, Run{}, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	run := p.run()
	r, err := p.recipe()
	if err != nil {
		return nil, run, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	again, err := New(r, run).Encode()
	if err != nil {
		return nil, run, err
	}
	differences, err := Compare(data, again)
	if err == nil && len(differences) > 0 {
		const most = 3
		err = fmt.Errorf("%w: this version of driver-build reads it as another one: %s", ErrFormat, strings.Join(differences[:min(len(differences), most)], "; "))
	}
	return r, run, err
}

func (p *Predicate) run() Run {
	builder := p.RunDetails.Builder
	run := Run{BuilderID: builder.ID, GoVersion: builder.Version["go"], Runner: p.BuildDefinition.Internal.Runner, Byproducts: p.RunDetails.Byproducts}
	for _, d := range p.BuildDefinition.Dependencies {
		switch d.Annotations[noteRole] {
		case roleMatrix:
			run.Matrix = &d
		case roleLock:
			run.Lock = &d
		case roleConfig:
			run.Configs = append(run.Configs, d)
		}
	}
	return run
}

func (p *Predicate) recipe() (*recipe.Recipe, error) {
	x := p.BuildDefinition.External
	d, err := distros.Lookup(x.System)
	if err = errors.Join(err, matrix.CheckArch(x.Arch), x.check()); err != nil {
		return nil, err
	}
	r := &recipe.Recipe{
		Schema: p.BuildDefinition.Internal.RecipeSchema, System: x.System, Distro: d, Driver: x.Driver, Branch: x.Branch, Arch: x.Arch, Tag: x.Tag,
		Profile: recipe.Profile(x.Profile), Flavours: x.flavours(), Base: recipe.Base{Name: x.Base}, Repositories: x.Repositories, OnlyThese: x.OnlyThese,
		Links: d.Links(), LibDir: d.LibDir(x.Arch), LibDir32: d.LibDir32(x.Arch), Aliases: x.Aliases, Toolchain: x.Toolchain, Sources: x.Sources, KMM: x.KMM,
		PrecompiledFlavours: x.Precompile, Modules: x.Modules, Signer: x.Signer, Compression: recipe.Compression(x.Compression), Epoch: x.SourceDateEpoch,
		Kernel: x.KernelRule, Patches: x.patches(), VGPU: x.VGPU, CUDA: x.CUDA, Advisories: x.Advisories, Overridden: x.Overridden, Builder: recipe.BuilderInfo{Version: p.RunDetails.Builder.Version["driver-build"]},
	}
	for _, release := range x.Kernels {
		r.Kernels = append(r.Kernels, recipe.Kernel{Release: release})
	}
	for _, d := range p.BuildDefinition.Dependencies {
		if err := addDependency(r, d); err != nil {
			return nil, fmt.Errorf("dependency %.200q: %w", d.Name, err)
		}
	}
	sortPins(r)
	return r, checkPins(r)
}

// check refuses values that could be no option of a build. They become parts of paths,
// requests and arguments.
func (x *Parameters) check() error {
	all := []error{imagename.CheckTag(x.Tag)}
	_, err := recipe.ParseProfile(x.Profile)
	all = append(all, err)
	if _, err = recipe.ParseCompression(x.Compression); err != nil {
		all = append(all, err)
	}
	if !versionShape.MatchString(x.Driver) {
		all = append(all, fmt.Errorf("%.80q is no version of a driver", x.Driver))
	}
	if x.SourceDateEpoch < 0 || x.SourceDateEpoch > lastEpoch {
		all = append(all, fmt.Errorf("%d is no time of an image", x.SourceDateEpoch))
	}
	if x.Base != "" {
		if all = append(all, imagename.CheckImage(x.Base)); oci.IsLocal(x.Base) || strings.Contains(x.Base, "@") {
			all = append(all, fmt.Errorf("the base %.200q is no REGISTRY/PATH:TAG", x.Base))
		}
	}
	for _, f := range slices.Concat(x.Flavours, x.Precompile) {
		if f != matrix.Proprietary && f != matrix.Open {
			all = append(all, fmt.Errorf("%.80q is no flavour of kernel modules", f))
		}
	}
	for _, m := range x.Modules {
		if !moduleShape.MatchString(m) {
			all = append(all, fmt.Errorf("%.80q is no name of a module", m))
		}
	}
	if x.VGPU != "" && !slices.Contains(driverinfo.VGPULicences(), x.VGPU) {
		all = append(all, fmt.Errorf("%.80q is no licence of a vGPU driver", x.VGPU))
	}
	for _, release := range x.Kernels {
		all = append(all, recipe.CheckRelease(release))
	}
	if x.Signer != "" && !sha256Shape.MatchString(x.Signer) {
		all = append(all, fmt.Errorf("%.80q is no SHA-256 of a certificate", x.Signer))
	}
	return errors.Join(all...)
}

// flavours returns those of the image in the order that recipes have: parameters have them sorted.
func (x *Parameters) flavours() []string {
	if slices.Equal(slices.Sorted(slices.Values(x.Flavours)), slices.Sorted(slices.Values(x.Precompile))) {
		return x.Precompile // in the order of the command line
	}
	var all []string
	for _, f := range []string{matrix.Proprietary, matrix.Open} {
		if slices.Contains(x.Flavours, f) {
			all = append(all, f)
		}
	}
	return all
}
