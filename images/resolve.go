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

	"github.com/driver-container/driver-container/distros/apt"
	"github.com/driver-container/driver-container/distros/dpkg"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/rootfs"
)

// resolved is the part of a plan that follows from base, repositories and wants alone. It is cached by their digests.
type resolved struct {
	Packages []apt.Package            `json:"packages"`
	Compiler []apt.Package            `json:"compiler,omitempty"`
	Headers  map[string][]apt.Package `json:"headers,omitempty"`
	Driver   []apt.Package            `json:"driver"`
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
	r.Packages, r.Compiler, r.Source.Packages = res.Packages, res.Compiler, res.Driver
	for i, k := range r.Kernels {
		r.Kernels[i].Headers = res.Headers[k.Release]
	}
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
	packages, err := index.Resolve(status, w.Image)
	if err != nil {
		return resolved{}, err
	}
	res := resolved{Packages: packages}
	if err := res.ahead(index, status, w); err != nil {
		return resolved{}, err
	}
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

// ahead resolves what compiling ahead of time takes: a compiler, and the headers of each kernel, which come with what they need
// beyond the compiler.
func (res *resolved) ahead(index *apt.Index, status *dpkg.Status, w wanted) (err error) {
	if len(w.Compiler) == 0 {
		return nil
	}
	if res.Compiler, err = index.Resolve(status, w.Compiler); err != nil {
		return err
	}
	there := map[string]bool{}
	for _, p := range res.Compiler {
		there[p.SHA256] = true
	}
	res.Headers = map[string][]apt.Package{}
	for release, headers := range w.Headers {
		all, err := index.Resolve(status, slices.Concat(w.Compiler, headers))
		if err != nil {
			return fmt.Errorf("headers of kernel %s: %w; driver-build kernels lists the kernels that the repositories have", release, err)
		}
		res.Headers[release] = slices.DeleteFunc(all, func(p apt.Package) bool { return there[p.SHA256] })
	}
	return nil
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
