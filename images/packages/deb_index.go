package packages

import (
	"context"
	"strings"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/apt"
	"github.com/driver-container/driver-container/distros/dpkg"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/rootfs"
)

// debRepositories are apt's, with the base that packages are resolved for.
type debRepositories struct {
	*apt.Releases
	distro distros.Distro
	base   *rootfs.Tree
	fetch  *fetch.Client
	index  *apt.Index   // once it is loaded
	status *dpkg.Status // of the base, then as well
}

func (r *debRepositories) Client(string) (*fetch.Client, error) { return r.fetch, nil }

func (r *debRepositories) load(ctx context.Context) (notes []string, err error) {
	r.index, err = r.Load(ctx)
	if err != nil {
		return nil, err
	}
	r.status, err = readStatus(r.base)
	return r.index.Notes(), err
}

func (r *debRepositories) resolve(
	_ context.Context,
	want, assumed []string,
) ([]distros.Package, error) {
	status := r.status
	if len(assumed) > 0 {
		var text strings.Builder
		for _, name := range assumed { // newer than any version that a package may ask for
			text.WriteString("Package: " + name +
				"\nStatus: install ok installed\nArchitecture: all\nMulti-Arch: foreign\nVersion: 9999:0\n\n")
		}
		var err error
		status, err = dpkg.ReadStatus(strings.NewReader(text.String()))
		if err != nil {
			return nil, err
		}
	}
	found, err := r.index.Resolve(status, want)
	all := make([]distros.Package, len(found))
	for i, p := range found {
		all[i] = p.Package
	}
	return all, err
}

// find finds a pinned package ("libcuda1=535.261.03-1") or, of one that Debian builds at versions
// of its own, the version of the driver's own time: the newest that is not newer than the driver,
// else the oldest there is.
func (r *debRepositories) find(want, driver string) (*distros.Package, error) {
	all := r.index.Versions(want)
	if strings.Contains(want, "=") || len(all) == 0 {
		p, err := r.index.Find(want)
		if err != nil {
			return nil, err
		}
		return &p.Package, nil
	}
	for i := range all {
		upstream := dpkg.Version(all[i].Version).Upstream()
		if dpkg.Compare(dpkg.Version(upstream), dpkg.Version(driver)) <= 0 {
			return &all[i].Package, nil
		}
	}
	return &all[len(all)-1].Package, nil
}

func (r *debRepositories) alone(want string) (*distros.Package, bool) {
	p, ok := r.index.Candidate(want)
	if !ok {
		return nil, false
	}
	return &p.Package, true
}

// kernels picks the kernels out of the names of packages.
func (r *debRepositories) kernels(d distros.Distro) (all []Kernel) {
	for _, name := range r.index.Names("linux-headers-") {
		release, flavour, ok := d.KernelOf(name)
		if !ok {
			continue
		}
		p, ok := r.index.Candidate(name)
		// shared by the flavours of a release, under a name that KernelOf did not know
		if !ok || p.Arch == "all" {
			continue
		}
		k := Kernel{URL: p.URL}
		k.Release = release
		k.Flavour = flavour
		k.Headers = name
		k.Version = p.Version
		for _, image := range d.KernelImages(release) {
			_, there := r.index.Candidate(image)
			k.whole = k.whole || there
		}
		all = append(all, k)
	}
	return usable(all, func(flavour string) string { return r.defaultSeries(d, flavour) })
}

// defaultSeries is the series of the kernel that the metapackage of a flavour installs, "" when
// there is none.
func (r *debRepositories) defaultSeries(d distros.Distro, flavour string) string {
	meta, ok := r.index.Candidate(d.KernelMeta(flavour))
	if !ok {
		return ""
	}
	depends, err := dpkg.ParseRelations(meta.Paragraph.Get("Depends"))
	if err != nil {
		return ""
	}
	for _, group := range depends {
		for _, relation := range group {
			if release, f, ok := d.KernelOf(relation.Name); ok && f == flavour {
				return recipe.SeriesOf(release)
			}
		}
	}
	return ""
}
