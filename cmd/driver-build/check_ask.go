package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/lockfile"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/recipe"
)

// inquiry asks registries, repositories and servers about pairs, each question once.
type inquiry struct {
	*checking
	session *session
	planner *planner
	bases   memo[string] // digest, by reference and architecture
	sizes   memo[int64]  // by address
}

func newInquiry(c *checking, s *session) (*inquiry, error) {
	q := &inquiry{checking: c, session: s}
	programs := s.builder.Binaries
	s.builder.Binaries = func(arch string) ([]recipe.Binary, error) {
		all, err := programs(arch)
		if err != nil {
			return nil, nil //nolint:nilerr // what is there of an image can be said without; see comparable
		}
		return all, nil
	}
	var err error
	q.planner, err = newPlanner(s)
	return q, err
}

// look answers all questions about one pair.
func (q *inquiry) look(ctx context.Context, row *checkRow, t matrix.Target) {
	it := item{target: t, plan: q.plan}
	row.Base = q.base(ctx, t.System.Base, t.Arch)
	row.Archive = q.archive(ctx, t)
	if row.Headers = (&verdict{stateUnknown, ""}); row.Base.State != stateFailed { // else the same reason would be given twice
		row.Headers = q.headers(ctx, row, it)
	}
	var lockErr error
	if q.lock != nil {
		it, lockErr = q.locked(it)
		row.Lock = q.lockedFiles(ctx, it, lockErr)
	}
	if q.options.repository != "" {
		r := q.comparable(ctx, it, lockErr)
		st := q.session.imageState(ctx, q.options.repository+":"+t.Tag(), t.Arch, r)
		st.Why = strings.Join(strings.Fields(st.Why), " ")
		row.Image = &st
	}
	for _, v := range []*verdict{row.Base, row.Archive, row.Headers, row.Lock} {
		row.Broken = row.Broken || v != nil && v.State == stateFailed
	}
}

func failed(err error) *verdict { return &verdict{stateFailed, oneLine(err)} }

// base asks for the manifest of a base.
func (q *inquiry) base(ctx context.Context, ref, arch string) *verdict {
	digest, err := q.bases.get(ref+" "+arch, func() (string, error) {
		h, err := q.session.registry.Resolve(ctx, ref, arch)
		return h.String(), err
	})
	if err != nil {
		return failed(err)
	}
	return &verdict{stateOK, digest}
}

// archive asks for the size of the driver's .run archive. A driver that comes as packages has none.
func (q *inquiry) archive(ctx context.Context, t matrix.Target) *verdict {
	asked, err := recipe.Ask(t, q.plan)
	if err != nil {
		return failed(err)
	}
	if asked.Archive == nil {
		return &verdict{State: stateNone}
	}
	return q.file(ctx, *asked.Archive)
}

// file asks whether a file is there with the size that it should have.
func (q *inquiry) file(ctx context.Context, f fetch.File) *verdict {
	size, err := q.size(ctx, f.URL)
	switch {
	case errors.Is(err, fetch.ErrOffline):
		return &verdict{stateUnknown, "--offline"}
	case err != nil:
		return failed(err)
	case size == 0:
		return &verdict{stateUnknown, "the server does not say how large " + f.URL + " is"}
	case f.Size > 0 && f.Size != size:
		return &verdict{stateFailed, fmt.Sprintf("%s has %d bytes, and should have %d", f.URL, size, f.Size)}
	}
	return &verdict{stateOK, fmt.Sprintf("%d bytes", size)}
}

func (q *inquiry) size(ctx context.Context, address string) (int64, error) {
	return q.sizes.get(address, func() (int64, error) { return q.session.builder.Fetch.Stat(ctx, address) })
}

// headers plans an image with compiler and headers for the newest kernel that the driver compiles on. Where there is none, the
// image as it is.
func (q *inquiry) headers(ctx context.Context, row *checkRow, it item) *verdict {
	offered, err := q.planner.kernels(ctx, it.target, it.plan)
	if err != nil {
		return failed(err)
	}
	for _, k := range offered {
		if recipe.CheckKernel(it.target.Driver, k.Release) == nil {
			row.Kernels++
		}
	}
	detail := "the repositories offer no kernel headers"
	if len(offered) > 0 {
		detail = fmt.Sprintf("the driver compiles on none of the %d kernels that the repositories offer", len(offered))
	}
	if row.Kernels > 0 {
		latest := precompile{kernels: []string{"latest"}, toolchain: true}
		releases, err := latest.releases(it.target, false, func(matrix.Target) ([]distros.Kernel, error) { return offered, nil })
		if err != nil { // kernels of other flavours only
			detail = oneLine(err)
		} else {
			row.Kernel = releases[0]
			it.plan.Kernels, it.plan.Toolchain = releases[:1], true
			detail = row.Kernel
		}
	}
	if _, err := q.planner.recipe(ctx, it); err != nil {
		return failed(err)
	}
	if row.Kernel == "" {
		return &verdict{stateNone, detail}
	}
	return &verdict{stateOK, detail}
}

// locked takes the section of a pair; one that is not locked is no failure of the lock unless it no longer fits.
func (q *inquiry) locked(it item) (item, error) {
	pins, err := q.lock.pins(&q.options, it)
	if err == nil {
		it.pins = pins
	}
	return it, err
}

// lockedFiles asks for everything that is locked: base and packages.
func (q *inquiry) lockedFiles(ctx context.Context, it item, err error) *verdict {
	if err != nil {
		if _, ok := q.lock.Find(it.tag(), it.target.Arch); !ok {
			return &verdict{stateNone, "not locked"}
		}
		return failed(err)
	}
	if v := q.base(ctx, it.base(), it.target.Arch); v.State == stateFailed {
		return v
	}
	section := lockfile.Target{Pins: *it.pins}
	all := section.Packages()
	closed := 0
	for _, p := range all {
		var status *fetch.StatusError
		if _, err := q.size(ctx, p.URL); errors.As(err, &status) && (status.Code == http.StatusUnauthorized || status.Code == http.StatusForbidden) {
			closed++ // of a subscription: builds have its certificates from the base's configuration, which is not read here
			continue
		}
		if v := q.file(ctx, fetch.File{URL: p.URL, Size: p.Size}); v.State == stateFailed {
			return v
		}
	}
	if closed > 0 {
		return &verdict{stateUnknown, fmt.Sprintf("%d of %d locked packages are on servers that want a login or a certificate, which check does not use", closed, len(all))}
	}
	return &verdict{stateOK, fmt.Sprintf("base and %d packages", len(all))}
}

// comparable gives the recipe to compare the image in the registry with; nil when there can be none.
func (q *inquiry) comparable(ctx context.Context, it item, lockErr error) *recipe.Recipe {
	if _, ok := q.lockedTag(it); ok && lockErr != nil {
		return nil
	}
	r, err := q.planner.recipe(ctx, it)
	if err != nil || len(r.Entrypoint) == 0 {
		return nil
	}
	return r
}

func (q *inquiry) lockedTag(it item) (*lockfile.Target, bool) {
	if q.lock == nil {
		return nil, false
	}
	return q.lock.Find(it.tag(), it.target.Arch)
}
