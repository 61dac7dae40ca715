package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/page"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/registry"
)

// created is the standard annotation that says when an image was made.
const created = "org.opencontainers.image.created"

// inquest asks about all cells of a page.
type inquest struct {
	*reporting
	session *session
	planner *planner // nil: nothing is planned
	tags    []string // of the repository, nil where it does not list them

	mu       sync.Mutex
	unequal  int   // cells that could not be compared
	whyFirst error // why not the first of them
}

// ask fills in the cells, several at a time.
func (r *reporting) ask(ctx context.Context, s *session, cells []cell) error {
	q := &inquest{reporting: r, session: s}
	if r.options.repository != "" {
		if err := q.list(ctx); err != nil {
			return err
		}
		if r.compare || r.lock != nil {
			p, err := newPlanner(s)
			if err != nil {
				return err
			}
			q.planner = p
		}
	}
	r.page.Cells = make([]page.Cell, len(cells))
	var eg errgroup.Group
	eg.SetLimit(max(1, r.app.jobs))
	for i, c := range cells {
		eg.Go(func() error {
			r.page.Cells[i] = q.cell(ctx, c)
			return context.Cause(ctx)
		})
	}
	if err := eg.Wait(); err != nil {
		return err
	}
	if q.unequal > 0 {
		r.notes = append(r.notes, fmt.Sprintf("whether %d images are out of date could not be found out: %s", q.unequal, oneLine(q.whyFirst)))
	}
	return nil
}

// list asks for the tags. A registry that answers, in whatever way, is asked on; without any answer there is no page: an old one
// is better than one that knows nothing.
func (q *inquest) list(ctx context.Context) error {
	step := q.session.display.stepFor(q.options.repository, "list the tags")
	tags, err := q.session.registry.ListTags(ctx, q.options.repository)
	_ = step.End(false, nil) // what went wrong is told below
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case is[*registry.StatusError](err), errors.Is(err, fs.ErrNotExist):
		q.notes = append(q.notes, fmt.Sprintf("images with compiled modules are not shown: %v", err))
	case is[*registry.Error](err):
		return err
	case err != nil:
		return usageError{fmt.Errorf("--repository: %w", err)}
	}
	q.tags = tags
	return nil
}

// cell says all that is known of one.
func (q *inquest) cell(ctx context.Context, l cell) page.Cell {
	c := page.Cell{System: l.System, Driver: l.Driver, Arch: l.Arch, Tag: l.Tag, Source: l.Source}
	t, ok := q.targets[[3]string{l.System, l.Driver, l.Arch}]
	if l.Excluded != "" || !ok {
		c.State, c.Why = page.Excluded, l.Excluded
		return c
	}
	for _, series := range t.System.Kernels {
		if recipe.CheckKernel(t.Driver, series) == nil {
			c.Kernels = append(c.Kernels, series)
		}
	}
	c.Modules = q.modules(t)
	if q.options.repository == "" {
		c.State = page.Buildable
		return c
	}
	st := q.session.imageState(ctx, q.options.repository+":"+l.Tag, l.Arch, q.recipe(ctx, t))
	c.State, c.Why = shownState(st.State), st.Why
	if st.State == imageMissing {
		c.Why = strings.TrimPrefix(st.Why, "not in the registry")
	}
	if st.Found.Size > 0 {
		c.Digest, c.Size = st.Found.Digest.String(), st.Found.Size
		c.Created, _ = time.Parse(time.RFC3339, st.Found.Annotations[created])
		if c.Created.Unix() <= 0 { // without SOURCE_DATE_EPOCH images say 1970, which means nothing
			c.Created = time.Time{}
		}
		if inside := st.Found.Annotations[recipe.LabelKernels]; inside != "" {
			c.Modules = append(strings.Split(inside, ","), c.Modules...)
		}
	}
	return c
}

// shownState is a state of the registry's image as the page calls it.
func shownState(s imageState) page.State {
	switch s {
	case imageCurrent, imagePresent:
		return page.Built
	case imageMissing:
		return page.Missing
	case imageOld:
		return page.OutOfDate
	default:
		return page.Unknown
	}
}

// recipe is what the image would be made from now; nil when nothing is compared, or when that cannot be found out.
func (q *inquest) recipe(ctx context.Context, t matrix.Target) *recipe.Recipe {
	if q.planner == nil {
		return nil
	}
	it := item{target: t, plan: q.plan}
	var err error
	if q.lock != nil {
		it.pins, err = q.lock.pins(&q.options, it)
	}
	var r *recipe.Recipe
	if err == nil {
		r, err = q.planner.recipe(ctx, it)
	}
	if err == nil {
		return r
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.unequal++; q.whyFirst == nil {
		q.whyFirst = err
	}
	return nil
}

// modules are the kernels that the repository has images with compiled modules for, as their tags name them.
func (q *inquest) modules(t matrix.Target) (kernels []string) {
	other := []string{"arm64", "aarch64"}
	if t.Arch == "arm64" {
		other = []string{"amd64", "x86_64"}
	}
	for _, tag := range q.tags {
		front, back := t.Driver.Version+"-", "-"+t.System.ID
		if len(tag) <= len(front)+len(back) || !strings.HasPrefix(tag, front) || !strings.HasSuffix(tag, back) {
			continue
		}
		kernel := tag[len(front) : len(tag)-len(back)]
		if !slices.ContainsFunc(other, func(arch string) bool { return strings.Contains(kernel, arch) }) {
			kernels = append(kernels, kernel)
		}
	}
	return kernels
}
