package rehearse

import (
	"cmp"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/rehearse/kernel"
)

// kernelQuery asks for the kernel for the images.
func (q Request) kernelQuery(all []*image) (query kernel.Query, err error) {
	id := cmp.Or(q.System, all[0].summary.System)
	if id == "" {
		return query, failure.Errorf(failure.Usage, "%s does not say for which system it is: give --os", q.Image)
	}
	release, err := chooseRelease(q.Kernel, all)
	if err != nil {
		return query, err
	}
	target, err := q.target(id)
	if err != nil {
		return query, err
	}
	programs, err := kernel.Programs(q.Matrix, target)
	if err != nil {
		return query, err
	}
	query = kernel.Query{
		System:   kernel.Source{Target: target, Options: q.Options},
		Programs: kernel.Source{Target: programs},
		Release:  release,
		Headers:  compiles(release, all),
	}
	if programs.System.ID == id {
		query.Programs.Options = q.Options
	}
	return query, nil
}

// target is a system of the matrix.
func (q Request) target(id string) (matrix.Target, error) {
	i := slices.IndexFunc(q.Matrix.Systems, func(s matrix.System) bool { return s.ID == id })
	if i < 0 {
		return matrix.Target{}, failure.Errorf(failure.Usage,
			"the matrix has no system %q, whose kernel the node has: give --os, or --matrix", id)
	}
	d, err := distros.Lookup(id)
	return matrix.Target{System: q.Matrix.Systems[i], Distro: d, Arch: "amd64"}, failure.Of(failure.Usage, err)
}

// compiles says whether an image has no modules for a kernel, so that it needs headers.
func compiles(release string, all []*image) bool {
	return slices.ContainsFunc(all, func(i *image) bool {
		return i.ours() && !slices.Contains(i.summary.Kernels, release)
	})
}

// chooseRelease returns the release that was asked for, or the newest that all images with modules
// have in common; "": none of them has modules.
func chooseRelease(asked string, all []*image) (string, error) {
	if asked != "" {
		return asked, nil
	}
	var common []string
	var lists []string
	for _, i := range all {
		kernels := i.summary.Kernels
		if len(kernels) == 0 {
			continue
		}
		lists = append(lists, i.ref+" for "+strings.Join(kernels, ", "))
		if len(lists) == 1 {
			common = slices.Clone(kernels)
			continue
		}
		common = slices.DeleteFunc(common, func(k string) bool { return !slices.Contains(kernels, k) })
	}
	switch {
	case len(lists) == 0:
		return "", nil
	case len(common) == 0:
		return "", failure.Errorf(failure.Usage,
			"the images have modules for no kernel in common (%s): give --kernel", strings.Join(lists, "; "))
	}
	return slices.MaxFunc(common, distros.CompareReleases), nil
}
