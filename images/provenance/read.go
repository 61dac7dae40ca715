package provenance

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/distros/fetch"
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

// addDependency adds a dependency to its part of the recipe. Those of the run are passed over.
func addDependency(r *recipe.Recipe, d Resource) (err error) {
	role := d.Annotations[noteRole]
	add := func(list *[]distros.Package) error {
		p, err := packageOf(d)
		*list = append(*list, p)
		return err
	}
	release, headers := strings.CutPrefix(role, roleHeaders)
	toolkitOf, toolkit := strings.CutPrefix(role, roleToolkit)
	switch {
	case role == roleBase:
		r.Base.Digest = "sha256:" + d.Digest["sha256"]
	case role == rolePackage:
		return add(&r.Packages)
	case role == roleCompiler:
		return add(&r.Compiler)
	case role == roleDriver && d.Annotations[notePackage] != "":
		return add(&r.Source.Packages)
	case role == roleDriver:
		file := fetch.File{URL: d.URI, SHA256: d.Digest["sha256"]}
		if file.Size, err = sizeOf(d); err == nil && !sha256Shape.MatchString(file.SHA256) {
			err = errors.New("it has no SHA-256")
		}
		switch format := d.Annotations[noteFormat]; {
		case format == formatRedist:
			r.Source.Redist = &file
		case format != "":
			return fmt.Errorf("the driver's archive has the unknown format %.80q", format)
		default:
			r.Source.Runfile = &file
		}
		return err
	case role == rolePart:
		c := recipe.Component{Name: d.Annotations[notePart], Version: d.Annotations[noteVersion], File: fetch.File{URL: d.URI, SHA256: d.Digest["sha256"]}}
		switch c.File.Size, err = sizeOf(d); {
		case err != nil:
			return err
		case c.Name == "" || c.Version == "" || !sha256Shape.MatchString(c.File.SHA256) || !IsWeb(c.File.URL):
			return errors.New("it does not say name, version, address and SHA-256 of the component")
		}
		r.Fabric = append(r.Fabric, c)
	case role == roleCompanion:
		c, err := companionOf(d)
		r.Companions = append(r.Companions, c)
		return err
	case role == rolePatch:
		return addPatch(r, d)
	case role == roleProgram:
		r.Entrypoint = append(r.Entrypoint, recipe.Binary{Name: d.Name, SHA256: d.Digest["sha256"]})
	case headers:
		i := slices.IndexFunc(r.Kernels, func(k recipe.Kernel) bool { return k.Release == release })
		if i < 0 {
			return fmt.Errorf("the image has no modules for kernel %.80q", release)
		}
		return add(&r.Kernels[i].Headers)
	case toolkit:
		i := slices.IndexFunc(r.Kernels, func(k recipe.Kernel) bool { return k.Release == toolkitOf })
		if i < 0 {
			return fmt.Errorf("the image has no modules for kernel %.80q", toolkitOf)
		}
		r.Kernels[i].Toolkit, err = toolkitFrom(d)
		return err
	}
	return nil
}

// companionOf reads a companion, which is a package or an archive.
func companionOf(d Resource) (c recipe.Companion, err error) {
	c = recipe.Companion{
		Name: d.Annotations[noteCompanion], Version: d.Annotations[noteCompanionVersion], Licence: d.Annotations[noteLicence],
		Flavours: strings.Fields(d.Annotations[noteFlavours]),
	}
	if len(c.Flavours) == 0 {
		c.Flavours = nil
	}
	if d.Annotations[notePackage] != "" {
		p, err := packageOf(d)
		c.Package = &p
		if err != nil {
			return c, err
		}
	} else {
		c.File = &fetch.File{URL: d.URI, SHA256: d.Digest["sha256"]}
		if c.File.Size, err = sizeOf(d); err != nil {
			return c, err
		}
		if !sha256Shape.MatchString(c.File.SHA256) || !IsWeb(d.URI) {
			return c, errors.New("it has no SHA-256 or no address")
		}
	}
	// What it becomes in driver.json is checked there, before anything uses it.
	if !slices.Contains(driverinfo.Companions(), c.Name) || !companionShape.MatchString(c.Version) {
		return c, fmt.Errorf("%.80q %.80q is no companion", c.Name, c.Version)
	}
	return c, nil
}

// toolkitFrom is an image with headers and compiler.
func toolkitFrom(d Resource) (*recipe.Base, error) {
	image := recipe.Base{Digest: "sha256:" + d.Digest["sha256"]}
	if d.URI != "" {
		image.Name = d.Name
	}
	switch {
	case !sha256Shape.MatchString(d.Digest["sha256"]):
		return nil, errors.New("it has no SHA-256")
	case image.Name == "":
		return &image, nil
	}
	if err := imagename.CheckImage(image.Name); err != nil || oci.IsLocal(image.Name) || strings.Contains(image.Name, "@") {
		return nil, errors.Join(fmt.Errorf("%.200q is no REGISTRY/PATH:TAG", image.Name), err)
	}
	return &image, nil
}

func packageOf(d Resource) (p distros.Package, err error) {
	p = distros.Package{
		Name: d.Annotations[notePackage], Version: d.Annotations[noteVersion], Arch: d.Annotations[noteArch], URL: d.URI,
		SHA256: d.Digest["sha256"], SHA512: d.Digest["sha512"],
	}
	if keys := strings.Fields(d.Annotations[noteKeys]); len(keys) > 0 {
		p.Keys = keys
	}
	switch {
	case p.Name == "" || p.Version == "" || p.Arch == "":
		return p, errors.New("it does not say the name, version and architecture of the package")
	case !sha256Shape.MatchString(p.SHA256) && !sha512Shape.MatchString(p.SHA512):
		return p, errors.New("it has no SHA-256 and no SHA-512")
	case !IsWeb(d.URI):
		return p, fmt.Errorf("%.200q is no address with http or https", d.URI)
	}
	p.Size, err = sizeOf(d)
	return p, err
}

// IsWeb says whether a text is an address with http or https.
func IsWeb(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
}

func sizeOf(d Resource) (int64, error) {
	text := d.Annotations[noteSize]
	if text == "" {
		return 0, nil
	}
	size, err := strconv.ParseInt(text, 10, 64)
	if err != nil || size < 0 || size == math.MaxInt64 {
		return 0, fmt.Errorf("%.80q is no size", text)
	}
	return size, nil
}

// sortPins brings packages into the order of plans. Dependencies are sorted by name and version in one word.
func sortPins(r *recipe.Recipe) {
	slices.SortFunc(r.Fabric, func(a, b recipe.Component) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(r.Companions, func(a, b recipe.Companion) int { return strings.Compare(a.Name, b.Name) })
	lists := [][]distros.Package{r.Packages, r.Compiler, r.Source.Packages}
	for _, k := range r.Kernels {
		lists = append(lists, k.Headers)
	}
	for _, list := range lists {
		slices.SortFunc(list, func(a, b distros.Package) int {
			return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Version, b.Version), strings.Compare(a.Arch, b.Arch))
		})
	}
}

// checkPins refuses a recipe that lacks what each has.
func checkPins(r *recipe.Recipe) error {
	switch {
	case !sha256Shape.MatchString(strings.TrimPrefix(r.Base.Digest, "sha256:")):
		return errors.New("it names no base image with a digest")
	case r.Source.Archive() == nil && len(r.Source.Packages) == 0:
		return errors.New("it does not name the driver")
	case r.Source.Archive() != nil && len(r.Source.Packages) > 0:
		return errors.New("it names the driver both as an archive and as packages")
	case r.Source.Runfile != nil && r.Source.Redist != nil:
		return errors.New("it names two archives of the driver")
	case slices.ContainsFunc(r.Patches, func(p recipe.Patch) bool { return p.SHA256 == "" }):
		return errors.New("it does not have the text or the digest of a patch")
	case len(r.Entrypoint) == 0:
		return errors.New("it names no program of the image")
	case len(r.Kernels) > 0 && (!hasCompiler(r) || len(r.PrecompiledFlavours) == 0):
		return errors.New("it names kernels, and no compiler or no flavour of their modules")
	}
	return nil
}

// hasCompiler says whether packages, or an image for each kernel, have what compiles the modules.
func hasCompiler(r *recipe.Recipe) bool {
	without := func(k recipe.Kernel) bool { return k.Toolkit == nil }
	return len(r.Compiler) > 0 || !slices.ContainsFunc(r.Kernels, without)
}
