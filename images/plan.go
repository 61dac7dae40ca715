package images

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/apt"
	"github.com/driver-container/driver-container/distros/dpkg"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/registry"
	"github.com/driver-container/driver-container/images/rootfs"
)

// PlanOptions are the choices that are not in the matrix. The zero value takes everything from the row.
type PlanOptions struct {
	Base        string      // another base: a reference, oci:DIR, oci-archive:FILE or docker-archive:FILE
	Source      string      // where the .run archive is: a URL; its checksum is still the row's
	Mirror      string      // instead of the addresses in the base's apt configuration; see apt.WithMirror
	Profile     Profile     // "": full
	Compression Compression // "": gzip
	Epoch       int64       // SOURCE_DATE_EPOCH
}

// Plan pins what goes into the image of a target. It reads the base and the signed package indexes and downloads no package
// and no driver.
func (b *Builder) Plan(ctx context.Context, t matrix.Target, o PlanOptions) (*Recipe, error) {
	d, err := distros.Lookup(t.System.ID)
	if err != nil {
		return nil, err
	}
	r := &Recipe{
		Schema: recipeVersion, System: t.System.ID, Driver: t.Driver.Version, Branch: t.Driver.Branch, Arch: t.Arch, Tag: t.Tag(),
		Profile: o.Profile, Flavours: t.Flavours, Links: d.Links(), LibDir: d.LibDir(t.Arch), LibDir32: d.LibDir32(t.Arch),
		Compression: o.Compression, Epoch: o.Epoch, Kernel: kernelRule(t.Driver.Kernel), Overridden: t.Overridden, Builder: b.Info,
	}
	if r.Profile == "" {
		r.Profile = Full
	}
	if r.Compression == "" {
		r.Compression = Gzip
	}
	step := b.Observe.Begin(r.Target(), "plan")
	return r, step.End(false, b.plan(ctx, r, t, d, o, step))
}

func (b *Builder) plan(ctx context.Context, r *Recipe, t matrix.Target, d distros.Distro, o PlanOptions, step *Step) (err error) {
	if r.Entrypoint, err = b.Binaries(t.Arch); err != nil {
		return err
	}
	ref := t.System.Base
	if o.Base != "" {
		ref = o.Base
	}
	base, err := b.Registry.Base(ctx, ref, t.Arch)
	if registry.IsLocal(ref) && errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %w", ErrBase, err)
	}
	if err != nil {
		return fmt.Errorf("base image of %s: %w", r.Target(), err)
	}
	r.Base = Base{Name: base.Name, Digest: base.Digest.String(), Location: ref}
	if registry.IsLocal(ref) {
		r.Base.Name = "" // a path of this machine has no place in an image
	}
	spool, err := rootfs.NewSpool(b.Store.Dir())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, spool.Close()) }()
	tree, err := b.baseTree(ctx, base.Image, r.Base.Digest, spool, step)
	if err != nil {
		return err
	}
	if err := checkSystem(tree, d); err != nil {
		return fmt.Errorf("base %s: %w", ref, err)
	}
	w, err := wants(t, d, o)
	if err != nil {
		return err
	}
	r.Source.Runfile = w.runfile
	return b.planPackages(ctx, r, t, o, tree, w, step)
}

// wanted is what a target asks of the package repositories, in apt's notation, or else of NVIDIA.
type wanted struct {
	Toolchain []string
	Driver    []string
	runfile   *fetch.File
}

// wants decides where the driver comes from: the archive of the command line, the system's own packages where the row names
// them, and else the row's .run archive.
func wants(t matrix.Target, d distros.Distro, o PlanOptions) (wanted, error) {
	w := wanted{Toolchain: d.Toolchain(t.Arch)}
	archive, ok := t.Driver.Archives[t.Arch]
	if o.Source != "" {
		if !ok {
			return w, fmt.Errorf("--source %s: the matrix has no checksum of the %s archive of driver %s to check it against: add archives.%s to the driver",
				o.Source, t.Arch, t.Driver.Version, t.Arch)
		}
		w.runfile = &fetch.File{URL: o.Source, SHA256: archive.SHA256, Size: archive.Size}
		return w, nil
	}
	if t.Driver.Debian != nil {
		if user, kernel, ok := t.Driver.Debian.Wants(t.System.ID, t.Arch); ok {
			w.Driver = append(user, kernelPackages(kernel, t.Flavours)...)
			w.Toolchain = append(w.Toolchain, t.Driver.Debian.Depends...)
			return w, nil
		}
	}
	if !ok {
		return w, fmt.Errorf("driver %s has no archive for %s", t.Driver.Version, t.Arch)
	}
	w.runfile = &fetch.File{URL: archive.URL, SHA256: archive.SHA256, Size: archive.Size}
	return w, nil
}

// resolved is the part of a plan that follows from base, repositories and wants alone. It is cached by their digests.
type resolved struct {
	Packages []apt.Package `json:"packages"`
	Driver   []apt.Package `json:"driver"`
}

func (b *Builder) planPackages(ctx context.Context, r *Recipe, t matrix.Target, o PlanOptions, tree *rootfs.Tree, w wanted, step *Step) error {
	options, err := b.aptOptions(t, o, tree)
	if err != nil {
		return err
	}
	releases, err := apt.OpenReleases(ctx, options)
	if err != nil {
		return fmt.Errorf("package repositories of %s: %w", t.System.ID, err)
	}
	k, err := key("plan", r.Base.Digest, releases.Digest(), r.Driver, w)
	if err != nil {
		return err
	}
	path := filepath.Join(b.Store.Dir(), "plans", k+".json")
	var res resolved
	if data, err := os.ReadFile(path); err != nil || json.Unmarshal(data, &res) != nil {
		if res, err = resolve(ctx, releases, tree, w, r.Driver, step); err != nil {
			return fmt.Errorf("packages for %s: %w", r.Target(), err)
		}
		data, err := json.Marshal(res)
		if err != nil {
			return err
		}
		if err := writeFile(path, data); err != nil {
			return fmt.Errorf("remember the plan: %w", err)
		}
	}
	r.Packages, r.Source.Packages = res.Packages, res.Driver
	return nil
}

func resolve(ctx context.Context, releases *apt.Releases, tree *rootfs.Tree, w wanted, driver string, step *Step) (resolved, error) {
	index, err := releases.Load(ctx)
	if err != nil {
		return resolved{}, err
	}
	for _, note := range index.Notes() {
		step.Note(note)
	}
	text, err := tree.ReadFile("var/lib/dpkg/status")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return resolved{}, err
	}
	status, err := dpkg.ReadStatus(bytes.NewReader(text))
	if err != nil {
		return resolved{}, fmt.Errorf("the base's var/lib/dpkg/status: %w", err)
	}
	packages, err := index.Resolve(status, w.Toolchain)
	if err != nil {
		return resolved{}, err
	}
	res := resolved{Packages: packages}
	for _, want := range w.Driver {
		p, err := driverPackage(index, want, driver)
		if err != nil {
			return resolved{}, err
		}
		res.Driver = append(res.Driver, *p)
	}
	slices.SortFunc(res.Driver, func(a, b apt.Package) int { return strings.Compare(a.Name, b.Name) })
	return res, nil
}

// driverPackage finds a pinned package ("libcuda1=535.261.03-1") or, of one that Debian builds at versions of its own, the
// version of the driver's own time: the newest that is not newer than the driver, else the oldest there is.
func driverPackage(index *apt.Index, want, driver string) (*apt.Package, error) {
	if strings.Contains(want, "=") {
		return index.Find(want)
	}
	all := index.Versions(want)
	if len(all) == 0 {
		return index.Find(want) // for its error
	}
	for i := range all {
		if dpkg.Compare(dpkg.Version(dpkg.Version(all[i].Version).Upstream()), dpkg.Version(driver)) <= 0 {
			return &all[i], nil
		}
	}
	return &all[len(all)-1], nil
}

func (b *Builder) aptOptions(t matrix.Target, o PlanOptions, tree *rootfs.Tree) (apt.Options, error) {
	root := tree.OpenFS()
	sources, err := apt.ReadSources(root)
	if err != nil {
		return apt.Options{}, fmt.Errorf("apt configuration of the base: %w", err)
	}
	if o.Mirror != "" {
		if sources, err = apt.WithMirror(sources, o.Mirror); err != nil {
			return apt.Options{}, err
		}
	}
	for _, rep := range t.System.Repositories {
		sources = append(sources, apt.Source{
			Origin: "matrix", URIs: rep.URIs, Suites: rep.Suites, Components: rep.Components, Key: rep.Key,
		})
	}
	return apt.Options{
		Fetch: b.Fetch, Root: root, Sources: sources, Arch: t.Arch, Components: t.System.Components, AllowExpired: t.System.AllowExpired,
	}, nil
}
