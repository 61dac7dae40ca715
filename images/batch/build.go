package batch

import (
	"cmp"
	"context"
	"fmt"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sync/errgroup"

	"github.com/driver-container/driver-container/images"
	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/registry"
)

// Each calls f for all groups, several at a time. A group that fails does not stop the others; ErrSomeFailed
// says that of several groups some failed.
func Each(ctx context.Context, jobs int, groups []Group, f func(Group) error) error {
	errs := Parallel(ctx, jobs/2, len(groups), func(i int) error { return About(groups[i].Tag, f(groups[i])) })
	failed := 0
	for _, err := range errs {
		if err != nil {
			failed++
		}
	}
	all := JoinErrors(errs, func(i int) string { return groups[i].Tag })
	if failed == 0 || len(groups) == 1 {
		return all
	}
	return fmt.Errorf("%d of %d targets: %w:\n%w", failed, len(groups), ErrSomeFailed, all)
}

// EachError calls f for the numbers of all groups, several at a time. The error says each cause once.
func EachError(ctx context.Context, jobs int, groups []Group, f func(i int) error) error {
	return JoinErrors(Parallel(ctx, jobs, len(groups), f), func(i int) string { return groups[i].Tag })
}

// Parallel runs f for the numbers below n, several at a time, and returns the errors in the order of the
// numbers. An error does not stop the others; a context that ends does.
func Parallel(ctx context.Context, jobs, n int, f func(i int) error) []error {
	errs := make([]error, n)
	var eg errgroup.Group
	eg.SetLimit(max(1, jobs))
	for i := range n {
		eg.Go(func() error {
			if errs[i] = context.Cause(ctx); errs[i] == nil {
				errs[i] = f(i)
			}
			return nil
		})
	}
	_ = eg.Wait() // the errors are in errs
	return errs
}

// Recipes plans the images of a group, or takes what was locked of them. found is called for each recipe, by
// several goroutines at once.
func (b *Batch) Recipes(ctx context.Context, plans *Plans, g Group, found func(*recipe.Recipe) error) error {
	eg, ctx := errgroup.WithContext(ctx)
	for _, im := range g.Images {
		eg.Go(func() error {
			r, err := plans.Recipe(ctx, im)
			if err != nil {
				return err
			}
			return found(r)
		})
	}
	return eg.Wait()
}

// Built is what a build made of a group.
type Built struct {
	Artifact oci.Artifact
	Images   []v1.Image // in it
	Recipes  []*recipe.Recipe
}

// Build builds the images of a group and makes one artifact of them.
func (b *Batch) Build(ctx context.Context, plans *Plans, g Group) (out Built, err error) {
	out.Images, out.Recipes = make([]v1.Image, len(g.Images)), make([]*recipe.Recipe, len(g.Images))
	eg, ectx := errgroup.WithContext(ctx)
	for i, im := range g.Images {
		eg.Go(func() error {
			r, err := plans.Recipe(ectx, im)
			if err != nil {
				return err
			}
			out.Recipes[i] = r
			out.Images[i], err = plans.Build(ectx, r)
			return b.explain(ctx, plans.Builder, im, err)
		})
	}
	if err := eg.Wait(); err != nil {
		return out, err
	}
	out.Artifact, err = images.Combine(out.Images)
	return out, err
}

// Download is a file, or a base image, that images are made from.
type Download struct {
	Digest string // with its kind: "sha256:..."
	Path   string // in the cache; "" for a base
	Name   string // the address of a file, the reference of a base
}

// Bases brings the base images of all groups into the cache. found is called once for each base.
func (b *Batch) Bases(ctx context.Context, plans *Plans, groups []Group, found func(Download)) error {
	once := firstTime(found)
	for _, g := range groups {
		for _, im := range g.Images {
			base, err := plans.Registry.Open(ctx, im.Base(), registry.OpenOptions{Arch: im.Target.Arch, Part: registry.Layers})
			if err != nil {
				return fmt.Errorf("base image of %s: %w", im.Target.System.ID, b.explain(ctx, plans.Builder, im, err))
			}
			name := base.Name
			if oci.IsLocal(im.Base()) {
				name = im.Base()
			}
			once(base.Digest.String()+" "+name, Download{Digest: base.Digest.String(), Name: name})
		}
	}
	return nil
}

// Fetch brings everything that the images of all groups are made from into the cache. found is called once
// for each file, also where several images need it.
func (b *Batch) Fetch(ctx context.Context, plans *Plans, groups []Group, found func(Download)) error {
	once := firstTime(found)
	for _, g := range groups {
		for _, im := range g.Images {
			r, err := plans.Recipe(ctx, im)
			if err != nil {
				return err
			}
			if im.Pins != nil { // else the plan has read it
				if _, err := plans.Registry.Open(ctx, r.Base.Location, registry.OpenOptions{Arch: im.Target.Arch, Part: registry.Layers}); err != nil {
					return fmt.Errorf("base image of %s: %w", r.Target(), b.explain(ctx, plans.Builder, im, err))
				}
			}
			once(r.Base.Digest, Download{Digest: r.Base.Digest, Name: cmp.Or(r.Base.Name, r.Base.Location)})
			if err := fetchToolkits(ctx, plans, r, once); err != nil {
				return err
			}
			if err := plans.Download(ctx, r); err != nil {
				return b.explain(ctx, plans.Builder, im, err)
			}
			for _, f := range r.Public().Files() {
				kind, digest := "sha256:", f.SHA256
				if digest == "" { // of a repository that knows no other
					kind, digest = "sha512:", f.SHA512
				}
				once(digest, Download{Digest: kind + digest, Path: plans.Store.Path(digest), Name: f.URL})
			}
		}
	}
	return nil
}

// fetchToolkits brings the images that modules are compiled in into the cache. One of this machine is where
// it is: there is nothing to fetch.
func fetchToolkits(ctx context.Context, plans *Plans, r *recipe.Recipe, once func(key string, d Download)) error {
	for _, k := range r.Kernels {
		if k.Toolkit == nil || k.Toolkit.Name == "" {
			continue
		}
		if _, err := plans.Registry.Open(ctx, k.Toolkit.Location, registry.OpenOptions{Arch: r.Arch, Part: registry.Layers}); err != nil {
			return fmt.Errorf("image with kernel %s: %w", k.Release, err)
		}
		once(k.Toolkit.Digest, Download{Digest: k.Toolkit.Digest, Name: k.Toolkit.Name})
	}
	return nil
}

func firstTime(found func(Download)) func(key string, d Download) {
	seen := map[string]bool{}
	return func(key string, d Download) {
		if !seen[key] {
			seen[key] = true
			found(d)
		}
	}
}

// Base is the reference of the image's base.
func (im Image) Base() string {
	ref := cmp.Or(im.Plan.Base, im.Target.System.Base)
	if im.Pins != nil && !oci.IsLocal(ref) {
		return im.Pins.Base.Name + "@" + im.Pins.Base.Digest
	}
	return ref
}
