package packages

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/dpkg"
	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/images/recipe"
)

// signedModules is a set of kernel modules that the distribution signed.
type signedModules struct {
	distros.SignedModules
	packages []distros.Package // with the modules; the first one names the set
	missing  string            // a package of the set that no repository has
}

// addSigned notes with each kernel the drivers whose modules for it the distribution signed.
func addSigned(kernels []Kernel, sets []signedModules) {
	by := map[string][]distros.SignedDriver{}
	for _, set := range sets {
		driver := distros.SignedDriver{Driver: set.Driver, Flavour: set.Flavour}
		if set.missing == "" && !slices.Contains(by[set.Release], driver) {
			by[set.Release] = append(by[set.Release], driver)
		}
	}
	for i := range kernels {
		signed := by[kernels[i].Release]
		slices.SortFunc(signed, func(a, b distros.SignedDriver) int {
			newest := distros.CompareReleases(b.Driver, a.Driver)
			return cmp.Or(newest, strings.Compare(a.Flavour, b.Flavour))
		})
		kernels[i].Signed = signed
	}
}

// resolveSigned finds the modules that the distribution signed for kernels and flavours, of just
// this version of the driver: modules and user-mode files of different versions do not work
// together.
func resolveSigned(
	repos Repositories,
	wants map[string][]string,
	driver string,
) (recipe.SignedPins, error) {
	pins := recipe.SignedPins{}
	sets := repos.signedModules()
	for release, flavours := range wants {
		pins[release] = map[string][]distros.Package{}
		for _, flavour := range flavours {
			set, err := chooseSigned(sets, release, flavour, driver)
			if err != nil {
				return nil, err
			}
			pins[release][flavour] = set.packages
		}
	}
	return pins, nil
}

// chooseSigned returns the newest of the sets that fit, or says what there is instead.
func chooseSigned(
	sets []signedModules,
	release, flavour, driver string,
) (found signedModules, err error) {
	refuse := func(format string, args ...any) (signedModules, error) {
		wrong := fmt.Errorf(format, args...)
		return found, failure.Errorf(failure.Usage, "--modules-from distribution: %w", wrong)
	}
	var versions, flavours []string
	for _, set := range sets {
		if set.Release != release {
			continue
		}
		flavours = append(flavours, set.Flavour)
		if set.Flavour != flavour {
			continue
		}
		versions = append(versions, set.Driver)
		if set.Driver == driver && (len(found.packages) == 0 || found.missing != "") {
			found = set
		}
	}
	flavours = slices.Compact(slices.Sorted(slices.Values(flavours)))
	versions = slices.Compact(slices.SortedFunc(slices.Values(versions), distros.CompareReleases))
	slices.Reverse(versions)
	switch {
	case len(flavours) == 0:
		return refuse("the repositories have no signed modules for kernel %s: driver-build kernels shows "+
			"for which there are, in the column SIGNED", release)
	case len(versions) == 0:
		return refuse("the signed modules for kernel %s are %s, not %s: give --flavour %s",
			release, strings.Join(flavours, " and "), flavour, flavours[0])
	case len(found.packages) == 0:
		return refuse("the signed modules for kernel %s are of driver %s, the image's user-mode files of %s, "+
			"and only one version works with itself: give --driver %s, which driver-build matrix add-driver "+
			"adds where the matrix does not have it",
			release, strings.Join(versions, " and "), driver, versions[0])
	case found.missing != "":
		return refuse("the signed modules for kernel %s are not whole: no repository has %s, which belongs to %s",
			release, found.missing, found.packages[0].Name)
	}
	return found, nil
}

// signedModules picks the sets out of the names of packages.
func (r *debRepositories) signedModules() (sets []signedModules) {
	signer, ok := distros.SigningModules(r.distro)
	if !ok {
		return nil
	}
	for _, prefix := range signer.SignedModulesPrefixes() {
		for _, name := range r.index.Names(prefix) {
			for _, p := range r.index.Versions(name) {
				set, ok := signer.ParseSignedModules(name, p.Version, p.Arch)
				if !ok {
					break
				}
				set.Driver = dependency(p.Paragraph, set.DriverPackage)
				if set.Driver != "" {
					sets = append(sets, r.complete(set, p.Package))
				}
			}
		}
	}
	return sets
}

// complete adds the other packages of a set, of the version of the first one.
func (r *debRepositories) complete(set distros.SignedModules, first distros.Package) signedModules {
	whole := signedModules{SignedModules: set, packages: []distros.Package{first}}
	for _, name := range set.Others {
		p, err := r.index.Find(name + "=" + first.Version)
		if err != nil {
			whole.missing = name + " " + first.Version
			break
		}
		whole.packages = append(whole.packages, p.Package)
	}
	return whole
}

// dependency is the lowest upstream version of another package that a package depends on; "": it
// does not depend on it.
func dependency(p dpkg.Paragraph, on string) string {
	relations, err := dpkg.ParseRelations(p.Get("Depends"))
	if err != nil {
		return ""
	}
	for _, group := range relations {
		for _, relation := range group {
			if relation.Name == on && (relation.Op == ">=" || relation.Op == "=") {
				return relation.Version.Upstream()
			}
		}
	}
	return ""
}

// signedModules picks the sets out of the names of packages.
func (r *rpmRepositories) signedModules() (sets []signedModules) {
	signer, ok := distros.SigningModules(r.distro)
	if !ok {
		return nil
	}
	for _, prefix := range signer.SignedModulesPrefixes() {
		for _, name := range r.index.Names(prefix) {
			for _, p := range r.index.Versions(name) {
				set, ok := signer.ParseSignedModules(name, p.Metadata.EVR.Version+"-"+p.Metadata.EVR.Release, p.Arch)
				if ok {
					whole := []distros.Package{r.pinned(p)}
					sets = append(sets, signedModules{SignedModules: set, packages: whole})
				}
			}
		}
	}
	return sets
}
