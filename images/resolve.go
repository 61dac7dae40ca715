package images

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/rootfs"
)

// resolved is the part of a plan that follows from base, repositories and wants alone. It is cached by their digests.
type resolved struct {
	Packages []distros.Package            `json:"packages"`
	Compiler []distros.Package            `json:"compiler,omitempty"`
	Headers  map[string][]distros.Package `json:"headers,omitempty"`
	Driver   []distros.Package            `json:"driver"`
}

func (b *Builder) planPackages(ctx context.Context, r *Recipe, t matrix.Target, o PlanOptions, tree *rootfs.Tree, w wanted, step *Step) error {
	f, err := r.family()
	if err != nil {
		return err
	}
	repos, err := f.open(ctx, b, t, o, tree)
	if err != nil {
		return fmt.Errorf("package repositories of %s: %w", t.System.ID, err)
	}
	k, err := key("plan", r.Base.Digest, repos.Digest(), r.Driver, w)
	if err != nil {
		return err
	}
	path := filepath.Join(b.Store.Dir(), "plans", k+".json")
	var res resolved
	if data, err := os.ReadFile(path); err != nil || json.Unmarshal(data, &res) != nil {
		if res, err = resolve(ctx, repos, w, r.Driver, step); err != nil {
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

func resolve(ctx context.Context, repos repositories, w wanted, driver string, step *Step) (res resolved, err error) {
	index, err := repos.load(ctx)
	if err != nil {
		return res, err
	}
	for _, note := range index.Notes() {
		step.Note(note)
	}
	if res.Packages, err = index.resolve(ctx, w.Image); err != nil {
		return resolved{}, err
	}
	if err := res.ahead(ctx, index, w); err != nil {
		return resolved{}, err
	}
	for _, want := range w.Driver {
		p, err := index.find(want, driver)
		if err != nil {
			return resolved{}, err
		}
		res.Driver = append(res.Driver, *p)
	}
	slices.SortFunc(res.Driver, func(a, b distros.Package) int { return strings.Compare(a.Name, b.Name) })
	return res, nil
}

// ahead resolves what compiling ahead of time takes: a compiler, and the headers of each kernel, which come with what they need
// beyond the compiler.
func (res *resolved) ahead(ctx context.Context, index packageIndex, w wanted) (err error) {
	if len(w.Compiler) == 0 {
		return nil
	}
	if res.Compiler, err = index.resolve(ctx, w.Compiler); err != nil {
		return err
	}
	there := map[string]bool{}
	for _, p := range res.Compiler {
		there[p.Digest()] = true
	}
	res.Headers = map[string][]distros.Package{}
	for release, headers := range w.Headers {
		all, err := index.resolve(ctx, slices.Concat(w.Compiler, headers))
		if err != nil {
			return fmt.Errorf("headers of kernel %s: %w; driver-build kernels lists the kernels that the repositories have", release, err)
		}
		res.Headers[release] = slices.DeleteFunc(all, func(p distros.Package) bool { return there[p.Digest()] })
	}
	return nil
}
