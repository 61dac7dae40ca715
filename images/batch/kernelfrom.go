package batch

import (
	"fmt"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/images/recipe"
)

// Offering names what offers the kernels.
func (k *Kernels) Offering() string {
	if len(k.From) > 0 {
		return "images"
	}
	return "repositories"
}

// inImages refuses a release that no image of --kernel-from has.
func (k *Kernels) inImages(offered []distros.Kernel) error {
	for _, spec := range k.Specs {
		has := func(k distros.Kernel) bool { return k.Release == spec }
		if len(k.From) > 0 && !IsListed(spec) && !slices.ContainsFunc(offered, has) {
			return fmt.Errorf("--kernel %w: %s has no complete headers of %s; there are %s", recipe.ErrKernel, strings.Join(k.From, " and "), spec, releasesOf(offered))
		}
	}
	return nil
}

// only is the kernel of images that have no other.
func (k *Kernels) only(offered []distros.Kernel) ([]string, error) {
	if len(k.Flavours) > 0 {
		offered = slices.DeleteFunc(slices.Clone(offered), func(o distros.Kernel) bool { return !slices.Contains(k.Flavours, o.Flavour) })
	}
	switch len(offered) {
	case 1:
		return []string{offered[0].Release}, nil
	case 0:
		return nil, failure.Errorf(failure.Usage, "--kernel-flavour: %w: %s has none of the flavour %s", recipe.ErrKernel, strings.Join(k.From, " and "), strings.Join(k.Flavours, ", "))
	}
	return nil, failure.Errorf(failure.Usage, "--kernel-from: %s has several kernels: name them with --kernel RELEASE, or give --kernel latest or all: %s",
		strings.Join(k.From, " and "), releasesOf(offered))
}

func releasesOf(kernels []distros.Kernel) string {
	var all []string
	for _, k := range kernels {
		all = append(all, k.Release)
	}
	return strings.Join(all, ", ")
}
