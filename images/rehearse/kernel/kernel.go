// Package kernel gets a kernel that a guest boots from the signed repositories of its system, and
// the guest's own programs from Debian's: they are found, downloaded and verified as the packages of
// images are. Nothing of them is executed, and no script of a package runs.
//
// The result is files of driver-build's cache. The package knows no name of a package (see distros),
// and starts no guest.
package kernel

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/distros/osrelease"
	"github.com/driver-container/driver-container/images"
	"github.com/driver-container/driver-container/images/layer"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/packages"
	"github.com/driver-container/driver-container/images/progress"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/rehearse/guest"
	"github.com/driver-container/driver-container/images/rootfs"
)

// Source is a system with its repositories: those that its base image names, with what the matrix
// and the options change about them.
type Source struct {
	Target  matrix.Target // its driver does not matter
	Options recipe.Options
}

// Query says which kernel.
type Query struct {
	System   Source
	Programs Source // see [Programs]
	// Release is a release as uname -r prints it, or another spec of recipe.SelectKernels; "": the
	// newest of the system's usual kernels. Of several, the oldest counts.
	Release string
	// Headers puts the kernel's headers into the guest's /usr, for images that compile.
	Headers bool
}

// Get returns a kernel, made or from the cache, and the packages that it is made of. A second call
// with the same repositories downloads no package. Errors: recipe.ErrKernel for a kernel that the
// repositories lack, those of images.Builder.Plan, and failure.Content for packages that have no
// kernel.
func Get(ctx context.Context, b *images.Builder, q Query) (k *guest.Kernel, all []distros.Package, err error) {
	t := q.System.Target
	if t.Arch != "amd64" {
		return nil, nil, failure.Errorf(
			failure.Usage, "rehearse for %s: guests are amd64 only", t.Arch,
		)
	}
	release, err := choose(ctx, b, q)
	if err != nil {
		return nil, nil, fmt.Errorf("kernel of %s: %w", t.System.ID, err)
	}
	q.System.Options.Kernels = []string{release}
	m := maker{Builder: b, query: q, release: release}
	work := func(spool *rootfs.Spool, step *progress.Step) (cached bool, err error) {
		m.spool = spool
		m.step = step
		k, cached, err = m.kernel(ctx)
		return cached, err
	}
	err = b.Step(t.System.ID+" kernel "+release, "guest", work)
	if err != nil {
		return nil, nil, fmt.Errorf("kernel %s of %s: %w", release, t.System.ID, err)
	}
	return k, m.pins.all(), nil
}

// choose returns the release that a query means.
func choose(ctx context.Context, b *images.Builder, q Query) (string, error) {
	t := q.System.Target
	if t.Distro.PackageManager() == "" {
		return "", fmt.Errorf("%w: they come with the host and are in no package", recipe.ErrKernel)
	}
	spec := cmp.Or(q.Release, "latest")
	var offered []distros.Kernel
	if recipe.IsListed(spec) {
		var err error
		offered, err = b.Offered(ctx, t, q.System.Options)
		if err != nil {
			return "", err
		}
	}
	usual := t.Distro.KernelFlavour(t.Arch)
	releases, err := recipe.SelectKernels(offered, []string{spec}, nil, usual)
	if err != nil {
		return "", err
	}
	return releases[len(releases)-1], nil
}

// pins are the packages that a guest is made of.
type pins struct {
	Kernel   []distros.Package `json:"kernel"`
	Headers  []distros.Package `json:"headers"`
	Programs []distros.Package `json:"programs"`
}

func (p pins) all() []distros.Package { return slices.Concat(p.Kernel, p.Headers, p.Programs) }

// maker makes the files of one kernel.
type maker struct {
	*images.Builder
	query   Query
	release string
	spool   *rootfs.Spool
	step    *progress.Step

	system   images.System
	programs images.System
	pins     pins
}

// kernel finds the packages of a kernel and returns its files, from the cache or made.
func (m *maker) kernel(ctx context.Context) (k *guest.Kernel, cached bool, err error) {
	err = m.open(ctx)
	if err != nil {
		return nil, false, err
	}
	err = m.pin(ctx)
	if err != nil {
		return nil, false, err
	}
	key := layer.Key("guest", method, m.release, recipe.Digests(m.pins.all()))
	rec, cached := lookup(m.Store, key)
	if !cached {
		rec, err = m.make(ctx, key)
	}
	if err != nil {
		return nil, false, err
	}
	k = rec.kernel(m.Store)
	k.System = m.query.System.Target.System.ID
	k.Release = m.release
	k.OSRelease, err = osrelease.Text(m.system.Facts.OpenFS())
	return k, cached, err
}

// open opens the repositories of both systems, which may be one.
func (m *maker) open(ctx context.Context) (err error) {
	of := m.query.System
	m.system, err = m.OpenSystem(ctx, of.Target, of.Options, m.spool, m.step)
	if err != nil {
		return &images.OpenError{Err: err}
	}
	of = m.query.Programs
	m.programs, err = m.OpenSystem(ctx, of.Target, of.Options, m.spool, m.step)
	if err != nil {
		return &images.OpenError{Err: fmt.Errorf(
			"the guest's programs, which are Debian's: %w; the matrix can name another base of %s",
			err, of.Target.System.ID,
		)}
	}
	return nil
}

// pin finds the packages, unless an earlier call has found them in equal repositories.
func (m *maker) pin(ctx context.Context) error {
	key := layer.Key(
		"guest pins", m.release, m.query.Headers,
		m.system.Base.Digest, m.system.Repositories.Digest(),
		m.programs.Base.Digest, m.programs.Repositories.Digest(),
	)
	_, found := m.Store.Lookup(RecordKind, key, &m.pins)
	if found {
		return nil
	}
	t := m.query.System.Target
	var err error
	m.pins.Kernel, err = packages.KernelPackages(ctx, m.system.Repositories, t.Distro, m.release, m.step)
	_, missing := errors.AsType[*distros.UnresolvableError](err)
	if missing {
		return m.missing(ctx, err)
	}
	if err != nil {
		return err
	}
	if m.query.Headers {
		headers := recipe.Wants{
			Compiler: t.Distro.Toolchain(t.Arch),
			Headers:  map[string][]string{m.release: t.Distro.Headers(m.release)},
		}
		found, err := packages.Resolve(ctx, m.system.Repositories, headers, "", m.step)
		if err != nil {
			return err
		}
		m.pins.Headers = found.Headers[m.release]
	}
	d := m.query.Programs.Target.Distro
	programs := recipe.Wants{
		Image:   distros.GuestPrograms(d),
		Assumed: d.Distroless(t.Arch).Assumed,
	}
	resolved, err := packages.Resolve(ctx, m.programs.Repositories, programs, "", m.step)
	if err != nil {
		return fmt.Errorf("the guest's programs: %w", err)
	}
	m.pins.Programs = resolved.Packages
	return m.Store.Note(RecordKind, key, "", m.pins)
}

// missing says which kernels come near one that the repositories lack.
func (m *maker) missing(ctx context.Context, cause error) error {
	offered, err := m.Offered(ctx, m.query.System.Target, m.query.System.Options)
	if err != nil {
		return errors.Join(cause, err)
	}
	var releases []string
	for _, k := range offered {
		releases = append(releases, k.Release)
	}
	near := distros.Nearest(m.release, releases)
	if len(near) == 0 {
		near = releases[:min(len(releases), 3)]
	}
	return fmt.Errorf(
		"%w: %w; there are %s, and driver-build kernels lists all",
		recipe.ErrKernel, cause, cmp.Or(strings.Join(near, ", "), "no kernels"),
	)
}
