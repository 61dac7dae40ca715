package provenance

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/imagename"
	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/recipe"
)

// addDependency adds a dependency to its part of the recipe. Those of the run are passed over.
func addDependency(r *recipe.Recipe, d Resource) error {
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
		return addArchive(r, d)
	case role == rolePart:
		c, err := componentOf(d)
		r.Fabric = append(r.Fabric, c)
		return err
	case role == roleCompanion:
		c, err := companionOf(d)
		r.Companions = append(r.Companions, c)
		return err
	case role == rolePatch:
		return addPatch(r, d)
	case role == roleProgram:
		r.Entrypoint = append(r.Entrypoint, recipe.Binary{Name: d.Name, SHA256: d.Digest["sha256"]})
	case headers:
		k, err := kernelOf(r, release)
		if err != nil {
			return err
		}
		return add(&k.Headers)
	case toolkit:
		k, err := kernelOf(r, toolkitOf)
		if err == nil {
			k.Toolkit, err = toolkitFrom(d)
		}
		return err
	}
	return nil
}

// kernelOf returns a kernel of the recipe.
func kernelOf(r *recipe.Recipe, release string) (*recipe.Kernel, error) {
	i := slices.IndexFunc(r.Kernels, func(k recipe.Kernel) bool { return k.Release == release })
	if i < 0 {
		return nil, fmt.Errorf("the image has no modules for kernel %.80q", release)
	}
	return &r.Kernels[i], nil
}

// addArchive adds the archive of the driver.
func addArchive(r *recipe.Recipe, d Resource) error {
	file, err := fileOf(d)
	if err == nil && !sha256Shape.MatchString(file.SHA256) {
		err = errors.New("it has no SHA-256")
	}
	switch format := d.Annotations[noteFormat]; format {
	case formatRedist:
		r.Source.Redist = &file
	case "":
		r.Source.Runfile = &file
	default:
		return fmt.Errorf("the driver's archive has the unknown format %.80q", format)
	}
	return err
}

func componentOf(d Resource) (c recipe.Component, err error) {
	c = recipe.Component{Name: d.Annotations[notePart], Version: d.Annotations[noteVersion]}
	switch c.File, err = fileOf(d); {
	case err != nil:
		return c, err
	case c.Name == "" || c.Version == "" || !sha256Shape.MatchString(c.File.SHA256) || !IsWeb(c.File.URL):
		return c, errors.New("it does not say name, version, address and SHA-256 of the component")
	}
	return c, nil
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
		file, err := fileOf(d)
		c.File = &file
		if err != nil {
			return c, err
		}
		if !sha256Shape.MatchString(file.SHA256) || !IsWeb(d.URI) {
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

// fileOf returns the archive that a dependency is. It may lack its digest.
func fileOf(d Resource) (file fetch.File, err error) {
	file = fetch.File{URL: d.URI, SHA256: d.Digest["sha256"]}
	file.Size, err = sizeOf(d)
	return file, err
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
