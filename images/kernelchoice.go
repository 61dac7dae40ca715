package images

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/recipe"
)

// isListed says whether a word means other kernels when others are offered.
func isListed(word string) bool { return word == "" || recipe.IsListed(word) }

// selectKernels returns the releases of the kernels that a request means for a target. Kernels that
// are offered and that the driver does not compile on are left out; such a kernel that the user
// named is refused.
func (b *Builder) selectKernels(
	ctx context.Context,
	q Request,
	t matrix.Target,
) ([]string, error) {
	if len(q.Options.KernelFrom) == 0 && !slices.ContainsFunc(q.Kernels, recipe.IsListed) {
		return q.selectOffered(t, nil)
	}
	err := recipe.CheckPackaged(t.Distro)
	if err != nil && len(q.Options.KernelFrom) == 0 {
		return nil, failure.Errorf(failure.Usage, "%s %s: --kernel: %w", t.Tag(), t.Arch, err)
	}
	offered, err := b.Offered(ctx, t, q.Options)
	if err != nil {
		return nil, err
	}
	return q.selectOffered(t, offered)
}

// selectOffered selects from the kernels that repositories or images offer.
func (q *Request) selectOffered(t matrix.Target, offered []distros.Kernel) ([]string, error) {
	refuse := func(format string, args ...any) error {
		return failure.Errorf(failure.Usage, format, args...)
	}
	suitable := slices.DeleteFunc(
		slices.Clone(offered),
		func(k distros.Kernel) bool { return q.checkOffered(t, k) != nil },
	)
	if len(suitable) == 0 && len(offered) > 0 {
		return nil, refuse(
			"--kernel: %w; the %s have no other",
			q.checkOffered(t, offered[0]),
			OfferedBy(q.Options),
		)
	}
	if len(q.Kernels) == 0 {
		return q.onlyKernel(suitable)
	}
	for _, release := range q.Kernels {
		if recipe.IsListed(release) {
			continue
		}
		there := releasesOf(offered)
		if len(q.Options.KernelFrom) > 0 && !slices.Contains(there, release) {
			return nil, refuse(
				"--kernel %w: %s has no complete headers of %s; there are %s",
				recipe.ErrKernel,
				strings.Join(q.Options.KernelFrom, " and "),
				release,
				strings.Join(there, ", "),
			)
		}
		err := q.checkKernel(t, distros.Kernel{Release: release})
		if err != nil {
			return nil, refuse(
				"--kernel %s: %w; --allow-incompatible builds it all the same",
				release,
				err,
			)
		}
	}
	usual := t.Distro.KernelFlavour(t.Arch)
	releases, err := recipe.SelectKernels(suitable, q.Kernels, q.KernelFlavours, usual)
	if err != nil {
		return nil, refuse("%s %s: %w", t.Tag(), t.Arch, err)
	}
	return releases, nil
}

// onlyKernel returns the kernel of images that offer just one.
func (q *Request) onlyKernel(offered []distros.Kernel) ([]string, error) {
	only := releasesOf(slices.DeleteFunc(offered, func(k distros.Kernel) bool {
		return len(q.KernelFlavours) > 0 && !slices.Contains(q.KernelFlavours, k.Flavour)
	}))
	from := strings.Join(q.Options.KernelFrom, " and ")
	switch len(only) {
	case 1:
		return only, nil
	case 0:
		return nil, failure.Errorf(
			failure.Usage,
			"--kernel-flavour: %w: %s has none of the flavour %s",
			recipe.ErrKernel,
			from,
			strings.Join(q.KernelFlavours, ", "),
		)
	}
	return nil, failure.Errorf(
		failure.Usage,
		"--kernel-from: %s has several kernels: name them with --kernel RELEASE, or give --kernel "+
			"latest or all: %s",
		from,
		strings.Join(only, ", "),
	)
}

// checkKernel says why the modules of a target do not compile on a kernel.
func (q *Request) checkKernel(t matrix.Target, k distros.Kernel) error {
	if q.AllowIncompatible {
		return nil
	}
	return recipe.CheckFlavours(t.Driver, k, recipe.CompiledFlavours(t, q.Options.Flavours))
}

// checkOffered says why a kernel that the repositories offer does not serve a target.
func (q *Request) checkOffered(t matrix.Target, k distros.Kernel) error {
	flavours := recipe.CompiledFlavours(t, q.Options.Flavours)
	if q.Options.SignedModules && !k.HasSigned(t.Driver.Version, flavours) {
		return fmt.Errorf(
			"--modules-from distribution: the repositories have no signed %s modules of driver %s for kernel %s",
			strings.Join(flavours, " and "),
			t.Driver.Version,
			k.Release,
		)
	}
	return q.checkKernel(t, k)
}

// OfferedBy names what offers kernels: repositories, or the images of the options.
func OfferedBy(o recipe.Options) string {
	if len(o.KernelFrom) > 0 {
		return "images"
	}
	return "repositories"
}

func releasesOf(kernels []distros.Kernel) (all []string) {
	for _, k := range kernels {
		all = append(all, k.Release)
	}
	return all
}

// Offered lists the kernels that the repositories of a target's system offer, or those of the
// images of the options. A builder asks once.
func (b *Builder) Offered(
	ctx context.Context,
	t matrix.Target,
	o recipe.Options,
) ([]distros.Kernel, error) {
	if len(o.KernelFrom) == 0 {
		return b.kernels.Get(ctx, platform(t, o), func() ([]distros.Kernel, error) {
			list, err := b.Kernels(ctx, t, o)
			if err != nil {
				return nil, err
			}
			// What a plan reads is in the cache now.
			_, err = b.first.Get(ctx, platform(t, o), func() (recipe.Pins, error) {
				return recipe.Pins{}, nil
			})
			return list, err
		})
	}
	key := t.Arch + " from " + strings.Join(o.KernelFrom, " ")
	return b.kernels.Get(ctx, key, func() (list []distros.Kernel, err error) {
		found, err := b.HeadersKernels(ctx, o.KernelFrom, t.Arch)
		for _, k := range found {
			list = append(list, k.Kernel.Kernel)
		}
		return list, err
	})
}
