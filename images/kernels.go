package images

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/registry"
	"github.com/driver-container/driver-container/images/rootfs"
)

// DatedKernel is a kernel that the repositories of a system offer, and when the package with its headers was published.
type DatedKernel struct {
	distros.Kernel
	Date time.Time // as the mirror has it; zero: it does not say
}

// offeredKernel is a kernel with the address of its headers.
type offeredKernel struct {
	distros.Kernel
	URL string
}

// Kernels lists the kernels that the package repositories of a target's base offer headers for, the newest first and of one
// version the usual flavour first. The driver of the target does not matter. Where the repositories have kernels as well as
// headers, headers without their kernel (old ones that were left behind) do not count. It downloads no package. Errors are
// those of Plan.
func (b *Builder) Kernels(ctx context.Context, t matrix.Target, o PlanOptions) ([]distros.Kernel, error) {
	offered, _, err := b.offeredKernels(ctx, t, o)
	var list []distros.Kernel
	for _, k := range offered {
		list = append(list, k.Kernel)
	}
	return list, err
}

// DatedKernels is Kernels with one more request for each, for its date. A date that cannot be had is left out, and a note
// says so.
func (b *Builder) DatedKernels(ctx context.Context, t matrix.Target, o PlanOptions) ([]DatedKernel, error) {
	offered, repos, err := b.offeredKernels(ctx, t, o)
	if err != nil {
		return nil, err
	}
	step := b.Observe.Begin(t.System.ID+" "+t.Arch, "dates of the kernels")
	list := make([]DatedKernel, len(offered))
	missing := make([]error, len(offered))
	var eg errgroup.Group
	eg.SetLimit(b.jobs())
	for i, k := range offered {
		list[i].Kernel = k.Kernel
		eg.Go(func() error {
			client, err := repos.client(k.URL)
			if err == nil {
				list[i].Date, err = client.Modified(ctx, k.URL)
			}
			missing[i] = err
			return nil
		})
	}
	_ = eg.Wait() // the errors are in missing
	if err := context.Cause(ctx); err != nil {
		return nil, step.End(false, err)
	}
	if i := slices.IndexFunc(missing, func(err error) bool { return err != nil }); i >= 0 {
		step.Note(fmt.Sprintf("some dates are not known: %v", missing[i]))
	} else if slices.ContainsFunc(list, func(k DatedKernel) bool { return k.Date.IsZero() }) {
		step.Note("some dates are not known: the mirror sends no Last-Modified with its packages")
	}
	return list, step.End(false, nil)
}

func (b *Builder) offeredKernels(ctx context.Context, t matrix.Target, o PlanOptions) (list []offeredKernel, repos repositories, err error) {
	d, err := distros.Lookup(t.System.ID)
	if err != nil {
		return nil, nil, err
	}
	step := b.Observe.Begin(t.System.ID+" "+t.Arch, "kernels")
	cached := false
	defer func() { err = step.End(cached, err) }()
	spool, err := rootfs.NewSpool(b.Store.Dir())
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, spool.Close()) }()
	if repos, err = b.baseRepositories(ctx, t, d, o, spool, step); err != nil {
		return nil, nil, err
	}
	list, cached, err = b.indexedKernels(ctx, t, d, repos, step)
	return list, repos, err
}

// baseRepositories reads the base's list of repositories and opens those, as Plan does.
func (b *Builder) baseRepositories(ctx context.Context, t matrix.Target, d distros.Distro, o PlanOptions, spool *rootfs.Spool, step *Step) (repositories, error) {
	ref := cmp.Or(o.Base, t.System.Base)
	base, err := b.Registry.Base(ctx, ref, t.Arch)
	if registry.IsLocal(ref) && errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %w", ErrBase, err)
	}
	if err != nil {
		return nil, fmt.Errorf("base image of %s: %w", t.System.ID, err)
	}
	tree, err := b.baseTree(ctx, base.Image, base.Digest.String(), spool, step)
	if err != nil {
		return nil, err
	}
	if err := checkSystem(tree, distros.Userland(d)); err != nil {
		return nil, fmt.Errorf("base %s: %w", ref, err)
	}
	f, err := familyOf(distros.Userland(d))
	if err != nil {
		return nil, err
	}
	repos, err := f.open(ctx, b, t, o, tree)
	if err != nil {
		return nil, fmt.Errorf("package repositories of %s: %w", t.System.ID, err)
	}
	return repos, nil
}

// indexedKernels reads the indexes, which takes most of the time, unless they are the ones it read last time.
func (b *Builder) indexedKernels(ctx context.Context, t matrix.Target, d distros.Distro, repos repositories, step *Step) (list []offeredKernel, cached bool, err error) {
	k, err := key("kernels", d.ID(), t.Arch, repos.Digest())
	if err != nil {
		return nil, false, err
	}
	path := filepath.Join(b.Store.Dir(), "plans", k+".json")
	if data, err := os.ReadFile(path); err == nil && json.Unmarshal(data, &list) == nil {
		return list, true, nil
	}
	index, err := repos.load(ctx)
	if err != nil {
		return nil, false, fmt.Errorf("package repositories of %s: %w", t.System.ID, err)
	}
	for _, note := range index.Notes() {
		step.Note(note)
	}
	list = index.kernels(d, t.Arch)
	orderKernels(list, d.KernelFlavour(t.Arch))
	data, err := json.Marshal(list)
	if err != nil {
		return nil, false, err
	}
	if err := writeFile(path, data); err != nil {
		return nil, false, fmt.Errorf("remember the kernels: %w", err)
	}
	return list, false, nil
}

// orderKernels puts the newest first and of one version the usual flavour first.
func orderKernels(list []offeredKernel, usual string) {
	slices.SortFunc(list, func(a, b offeredKernel) int {
		switch {
		case version(a.Kernel) != version(b.Kernel):
			return distros.CompareReleases(version(b.Kernel), version(a.Kernel))
		case a.Flavour == usual:
			return -1
		case b.Flavour == usual:
			return 1
		}
		return cmp.Compare(a.Flavour, b.Flavour) // version and flavour make the release: never equal
	})
}

// seriesOf is "6.1" of "6.1.0-38-amd64".
func seriesOf(release string) string {
	major, minor, ok := driverinfo.Series(release)
	if !ok {
		return ""
	}
	return fmt.Sprintf("%d.%d", major, minor)
}

// version is a kernel's release without its flavour.
func version(k distros.Kernel) string { return distros.ParseRelease(k.Release).WithoutFlavour() }
