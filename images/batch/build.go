package batch

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sync/errgroup"

	"github.com/driver-container/driver-container/images"
	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/registry"
)

// Each calls f for all groups, several at a time. A group that fails does not stop the others;
// ErrSomeFailed says that of several groups some failed.
func Each(ctx context.Context, jobs int, groups []Group, f func(Group) error) error {
	errs := Parallel(
		ctx,
		jobs/2,
		len(groups),
		func(i int) error { return About(groups[i].Tag, f(groups[i])) },
	)
	all := JoinErrors(errs, func(i int) string { return groups[i].Tag })
	if all == nil || len(groups) == 1 {
		return all
	}
	failed := len(slices.DeleteFunc(errs, func(err error) bool { return err == nil }))
	return fmt.Errorf("%d of %d targets: %w:\n%w", failed, len(groups), ErrSomeFailed, all)
}

// EachError calls f for the numbers below n, several at a time. The error says each cause once.
func EachError(ctx context.Context, jobs, n int, name func(int) string, f func(i int) error) error {
	return JoinErrors(Parallel(ctx, jobs, n, f), name)
}

// Parallel runs f for the numbers below n, several at a time, and returns the errors in the order
// of the numbers. An error does not stop the others; a context that ends does.
func Parallel(ctx context.Context, jobs, n int, f func(i int) error) []error {
	errs := make([]error, n)
	var eg errgroup.Group
	eg.SetLimit(max(1, jobs))
	for i := range n {
		eg.Go(func() error {
			errs[i] = context.Cause(ctx)
			if errs[i] == nil {
				errs[i] = f(i)
			}
			return nil
		})
	}
	_ = eg.Wait() // the errors are in errs
	return errs
}

// Recipes plans the images of a group, or takes what was locked of them. found is called for each
// recipe, by several goroutines at once.
func (b *Batch) Recipes(
	ctx context.Context,
	plans *Plans,
	g Group,
	found func(*recipe.Recipe) error,
) error {
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
		eg.Go(func() (err error) {
			out.Recipes[i], err = plans.Recipe(ectx, im)
			if err != nil {
				return err
			}
			out.Images[i], err = plans.Build(ectx, out.Recipes[i])
			return b.explain(ctx, plans.Builder, im, err)
		})
	}
	if err := eg.Wait(); err != nil {
		return out, err
	}
	out.Artifact, err = images.Combine(out.Images)
	return out, err
}

// Download is a file, or an image, that images are made from.
type Download struct {
	Digest string // with its kind: "sha256:..."
	Path   string // of a file in the cache; "" for an image
	Name   string // the address of a file, the reference of an image
}

// Fetch brings everything that the images of all groups are made from into the cache, or with
// onlyBases their base images. found is called once for each file and image, also where several
// images need it.
func (b *Batch) Fetch(ctx context.Context, plans *Plans, groups []Group, onlyBases bool, found func(Download)) error {
	seen := map[string]bool{}
	once := func(key string) bool {
		again := seen[key]
		seen[key] = true
		return !again
	}
	// open brings an image into the cache. One of this machine is where it is.
	open := func(what string, image recipe.Base, arch string) error {
		if !once(image.Location + " " + arch) {
			return nil
		}
		opened, err := plans.Registry.Open(ctx, image.Location, registry.OpenOptions{Arch: arch, Part: registry.Layers})
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		d := Download{Digest: opened.Digest.String(), Name: cmp.Or(image.Name, opened.Name)}
		if oci.IsLocal(image.Location) {
			d.Name = image.Location
		}
		if once(d.Digest + " " + d.Name) {
			found(d)
		}
		return nil
	}
	bring := func(im Image) error {
		arch := im.Target.Arch
		if onlyBases {
			return open("base image of "+im.Target.System.ID, recipe.Base{Location: im.Base()}, arch)
		}
		r, err := plans.Recipe(ctx, im)
		if err != nil {
			return err
		}
		if err := open("base image of "+r.Target(), r.Base, arch); err != nil {
			return err
		}
		for _, k := range r.Kernels {
			if k.Toolkit != nil && k.Toolkit.Name != "" {
				if err := open("image with kernel "+k.Release, *k.Toolkit, arch); err != nil {
					return err
				}
			}
		}
		if err := plans.Download(ctx, r); err != nil {
			return err
		}
		for _, f := range r.Public().Files() {
			d := Download{Digest: "sha256:" + f.SHA256, Path: plans.Store.Path(cmp.Or(f.SHA256, f.SHA512)), Name: f.URL}
			if f.SHA256 == "" { // of a repository that knows no other
				d.Digest = "sha512:" + f.SHA512
			}
			if once(d.Digest) {
				found(d)
			}
		}
		return nil
	}
	for _, g := range groups {
		for _, im := range g.Images {
			if err := bring(im); err != nil {
				return b.explain(ctx, plans.Builder, im, err)
			}
		}
	}
	return nil
}

// Base is the reference of the image's base.
func (im Image) Base() string {
	ref := cmp.Or(im.Plan.Base, im.Target.System.Base)
	if im.Pins != nil && !oci.IsLocal(ref) {
		return im.Pins.Base.Name + "@" + im.Pins.Base.Digest
	}
	return ref
}
