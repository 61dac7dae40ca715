package images

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/images/layer"
	"github.com/driver-container/driver-container/images/lockfile"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/recipe"
)

// Request is what images are asked for: targets of the matrix, and what each of them gets.
type Request struct {
	Targets []matrix.Target
	// Options are those of every image. Their Kernels are releases; what users write is in Kernels.
	Options recipe.Options
	// Kernels, as [recipe.SelectKernels] takes them, are those whose modules are compiled ahead of
	// time. With none and with Options.KernelFrom it is the only kernel of these images.
	Kernels []string
	// KernelFlavours are those of the kernels that "latest" and "all" mean.
	KernelFlavours []string
	// AllowIncompatible takes a kernel although the driver does not compile on it.
	AllowIncompatible bool

	// Lock has what images are made from; nil: repositories and registries are asked.
	Lock *lockfile.Lock
	// LockCommand returns the command that writes an entry of the lock again, for messages.
	LockCommand func(entry string) string
}

// Draft is the recipe of an image before repositories and registries have answered what it asks.
type Draft struct {
	Recipe *recipe.Recipe

	target  matrix.Target
	options recipe.Options
	locked  *recipe.Pins // nil: they have to be found
	// kernelWords are how users wrote the kernels, as the lock notes it.
	kernelWords []string
}

// NewDraft returns the draft of one image. It asks nothing.
func NewDraft(t matrix.Target, o recipe.Options) (*Draft, error) {
	r, err := recipe.New(t, o)
	if err != nil {
		return nil, err
	}
	return &Draft{Recipe: r, target: t, options: o}, nil
}

// Base is the reference of the image's base: by its digest, if the lock has one.
func (d *Draft) Base() string {
	ref := d.Recipe.Base.Location
	if d.locked != nil && !oci.IsLocal(ref) {
		return d.locked.Base.Name + "@" + d.locked.Base.Digest
	}
	return ref
}

// platform is what all images of a system and an architecture are planned from.
func platform(t matrix.Target, o recipe.Options) string {
	s := t.System
	base := cmp.Or(o.Base, s.Base)
	return layer.Key(
		"platform",
		s.ID,
		t.Arch,
		base,
		o.Mirror,
		s.Components,
		s.Repositories,
		s.ReplaceRepositories,
		o.SignedModules,
	)
}

func (d *Draft) platform() string { return platform(d.target, d.options) }

// Drafts returns the images of one target, several if modules are compiled for several kernels.
// Only if the request has no lock, and asks for kernels in other words than their releases, the
// repositories or images that offer kernels are read.
func (b *Builder) Drafts(ctx context.Context, q Request, t matrix.Target) ([]*Draft, error) {
	if q.Lock != nil {
		return q.lockedDrafts(t)
	}
	if !q.choosesKernels() {
		return q.draft(t, nil)
	}
	releases, err := b.selectKernels(ctx, q, t)
	if err != nil {
		return nil, err
	}
	return q.draft(t, releases)
}

// choosesKernels says whether the request has words for kernels.
func (q *Request) choosesKernels() bool {
	return len(q.Options.Kernels) == 0 && len(q.Kernels)+len(q.Options.KernelFrom) > 0
}

// kernelWords are the words for kernels; "" stands for the only kernel of images that offer some.
func (q *Request) kernelWords() []string {
	if len(q.Kernels) == 0 && len(q.Options.KernelFrom) > 0 {
		return []string{""}
	}
	return q.Kernels
}

// draft returns the images of a target: without kernels the one of the options, else one for each
// kernel, or one for all kernels.
func (q *Request) draft(t matrix.Target, kernels []string) (all []*Draft, err error) {
	groups := [][]string{q.Options.Kernels}
	if len(kernels) > 0 {
		groups = slices.Collect(slices.Chunk(kernels, 1))
	}
	if len(kernels) > 0 && q.Options.OneImage {
		groups = [][]string{kernels}
	}
	flavours := recipe.CompiledFlavours(t, q.Options.Flavours)
	if len(kernels) > 0 && q.Options.KMM && len(flavours) > 1 {
		return nil, failure.Errorf(
			failure.Usage,
			"--kmm: KMM finds the modules of a kernel in one folder, and %s has those of two "+
				"flavours (%s): give one --flavour",
			t.Tag(),
			strings.Join(flavours, ", "),
		)
	}
	for _, group := range groups {
		o := q.Options
		o.Kernels = group
		d, err := NewDraft(t, o)
		if err != nil {
			return nil, err
		}
		all = append(all, d)
	}
	return all, nil
}

// ByTag groups images that share a tag, one an architecture, in the order of the first of each.
func ByTag[T any](all []T, tag func(T) string) (groups [][]T) {
	position := map[string]int{}
	for _, image := range all {
		at, known := position[tag(image)]
		if !known {
			at = len(groups)
			position[tag(image)] = at
			groups = append(groups, nil)
		}
		groups[at] = append(groups[at], image)
	}
	return groups
}
