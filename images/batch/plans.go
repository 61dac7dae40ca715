package batch

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images"
	"github.com/driver-container/driver-container/images/layer"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/recipe"
)

// Plans plans the images of one call. The base and the repositories of a system are read from the
// network once, so that all images of a system are planned from one state, and equal requests are
// resolved once.
type Plans struct {
	*images.Builder
	cached  *images.Builder              // asks no server
	opened  layer.Once[recipe.Pins]      // of the first image of a platform
	kernels layer.Once[[]distros.Kernel] // by platform
	pins    layer.Once[recipe.Pins]      // by platform and request
}

// NewPlans starts the plans of one call.
func NewPlans(b *images.Builder) (*Plans, error) {
	cached, err := b.Cached()
	return &Plans{Builder: b, cached: cached}, err
}

// Platform names what package repositories belong to: a system and an architecture.
func Platform(t matrix.Target) string { return t.System.ID + " " + t.Arch }

// Offered lists the kernels that the repositories of a target's system offer, or those of images
// with headers and compiler.
func (p *Plans) Offered(
	ctx context.Context,
	t matrix.Target,
	o recipe.Options,
) ([]distros.Kernel, error) {
	if len(o.KernelFrom) > 0 {
		return p.kernels.Get(
			ctx,
			t.Arch+" from "+strings.Join(o.KernelFrom, " "),
			func() (list []distros.Kernel, err error) {
				found, err := p.HeadersKernels(ctx, o.KernelFrom, t.Arch)
				for _, k := range found {
					list = append(list, k.Kernel.Kernel)
				}
				return list, err
			},
		)
	}
	return p.kernels.Get(ctx, Platform(t), func() ([]distros.Kernel, error) {
		list, err := p.Kernels(ctx, t, o)
		if err == nil { // what a plan reads is in the cache now
			_, _ = p.opened.Get(
				ctx,
				Platform(t),
				func() (recipe.Pins, error) { return recipe.Pins{}, nil },
			)
		}
		return list, err
	})
}

// Find finds the pins of an image, unless the lock has them. No programs are needed.
func (p *Plans) Find(ctx context.Context, im Image) (recipe.Pins, error) {
	if im.Pins != nil {
		return *im.Pins, nil
	}
	r, err := recipe.New(im.Target, im.Plan)
	if err != nil {
		return recipe.Pins{}, err
	}
	request, err := json.Marshal(r.Asked)
	if err != nil {
		return recipe.Pins{}, err
	}
	pins, err := p.pins.Get(
		ctx,
		Platform(im.Target)+" "+string(request),
		func() (recipe.Pins, error) { return p.resolve(ctx, im) },
	)
	if err != nil {
		return recipe.Pins{}, About(im.Tag(), err)
	}
	return pins, nil
}

// resolve plans an image. The first of a platform reads base and repositories, the others find them
// in the cache. What keeps the first from reading them keeps the others too; what it lacks itself
// does not.
func (p *Plans) resolve(ctx context.Context, im Image) (recipe.Pins, error) {
	first := false
	pins, err := p.opened.Get(ctx, Platform(im.Target), func() (recipe.Pins, error) {
		first = true
		return p.FindPins(ctx, im.Target, im.Plan)
	})
	if _, closed := errors.AsType[*images.OpenError](err); first || closed || ctx.Err() != nil {
		return pins, err
	}
	pins, err = p.cached.FindPins(ctx, im.Target, im.Plan)
	// an index that the first did not need, or that has left the cache
	if errors.Is(err, fetch.ErrOffline) {
		pins, err = p.FindPins(ctx, im.Target, im.Plan)
	}
	return pins, err
}

// Recipe is what an image is made from, with the programs of the builder.
func (p *Plans) Recipe(ctx context.Context, im Image) (*recipe.Recipe, error) {
	if im.Recipe != nil {
		return im.Recipe, nil
	}
	pins, err := p.Find(ctx, im)
	if err != nil {
		return nil, err
	}
	return p.Builder.Recipe(im.Target, im.Plan, pins)
}
