package images

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/images/layer"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/packages"
	"github.com/driver-container/driver-container/images/progress"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/rootfs"
)

// DatedKernel is a kernel that the repositories of a system offer, and when the package with its
// headers was published.
type DatedKernel struct {
	distros.Kernel
	Date time.Time // as the mirror has it; zero: it does not say
}

// Kernels lists the kernels that the package repositories of a target's base offer headers for, the
// newest first and of one version the usual flavour first. The driver of the target does not
// matter. Where the repositories have kernels as well as headers, headers without their kernel (old
// ones that were left behind) do not count. It downloads no package. Errors are those of Plan.
func (b *Builder) Kernels(
	ctx context.Context,
	t matrix.Target,
	o recipe.Options,
) ([]distros.Kernel, error) {
	offered, _, err := b.offeredKernels(ctx, t, o)
	var list []distros.Kernel
	for _, k := range offered {
		list = append(list, k.Kernel)
	}
	return list, err
}

// DatedKernels is Kernels with one more request for each kernel, for its date. Where a date is not
// known it is left out, with a note.
func (b *Builder) DatedKernels(
	ctx context.Context,
	t matrix.Target,
	o recipe.Options,
) ([]DatedKernel, error) {
	offered, repos, err := b.offeredKernels(ctx, t, o)
	if err != nil {
		return nil, err
	}
	step := b.Observe.Begin(t.Platform(), "dates of the kernels")
	list := make([]DatedKernel, len(offered))
	missing := Parallel(ctx, b.Env().AtOnce(), len(offered), func(i int) (err error) {
		k := offered[i]
		list[i].Kernel = k.Kernel
		client, err := repos.Client(k.URL)
		if err != nil {
			return err
		}
		_, list[i].Date, err = client.Stat(ctx, k.URL)
		return err
	})
	err = context.Cause(ctx)
	if err != nil {
		return nil, step.End(false, err)
	}
	if i := slices.IndexFunc(missing, func(err error) bool { return err != nil }); i >= 0 {
		step.Note(fmt.Sprintf("some dates are not known: %v", missing[i]))
	} else if slices.ContainsFunc(list, func(k DatedKernel) bool { return k.Date.IsZero() }) {
		step.Note("some dates are not known: the mirror sends no Last-Modified with its packages")
	}
	return list, step.End(false, nil)
}

func (b *Builder) offeredKernels(
	ctx context.Context, t matrix.Target, o recipe.Options,
) (list []packages.Kernel, repos packages.Repositories, err error) {
	err = b.Step(
		t.Platform(),
		"kernels",
		func(spool *rootfs.Spool, step *progress.Step) (cached bool, err error) {
			system, err := b.OpenSystem(ctx, t, o, spool, step)
			if err != nil {
				return false, err
			}
			repos = system.Repositories
			list, cached, err = b.indexedKernels(ctx, t, repos, step)
			return cached, err
		},
	)
	return list, repos, err
}

// indexedKernels reads the indexes, which takes most of the time, unless they have not changed
// since the last call.
func (b *Builder) indexedKernels(
	ctx context.Context, t matrix.Target, repos packages.Repositories, step *progress.Step,
) (list []packages.Kernel, cached bool, err error) {
	cached = true
	const kind = "kernels"
	key := layer.Key(kind, "with signed modules", t.Distro.ID(), t.Arch, repos.Digest())
	list, err = remembered(b, kind, key, func() ([]packages.Kernel, error) {
		cached = false
		list, err := packages.Kernels(ctx, repos, t.Distro, step)
		orderKernels(list, t.Distro.KernelFlavour(t.Arch))
		return list, err
	})
	return list, cached, err
}

// orderKernels puts the newest first and of one version the usual flavour first.
func orderKernels(list []packages.Kernel, usual string) {
	slices.SortFunc(list, func(a, b packages.Kernel) int {
		switch {
		case version(a.Kernel) != version(b.Kernel):
			return distros.CompareReleases(version(b.Kernel), version(a.Kernel))
		case a.Flavour == usual:
			return -1
		case b.Flavour == usual:
			return 1
		}
		// version and flavour make the release: never equal
		return cmp.Compare(a.Flavour, b.Flavour)
	})
}

// version is a kernel's release without its flavour.
func version(k distros.Kernel) string { return distros.ParseRelease(k.Release).WithoutFlavour() }
