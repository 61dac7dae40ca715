package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/recipe"
)

// planner plans many images. Cells of the matrix share bases, repositories and mostly packages too, so each question to the
// network is asked once, and what follows from equal requests is found out once.
type planner struct {
	online      *images.Builder
	cached      *images.Planner
	kernelLists memo[[]distros.Kernel] // by place
	plans       memo[recipe.Pins]      // by place and request
}

// memo keeps what was found out for a key. Callers that want the same at the same time wait for the first.
type memo[T any] struct {
	mu  sync.Mutex
	all map[string]func() (T, error)
}

func (m *memo[T]) get(key string, find func() (T, error)) (T, error) {
	m.mu.Lock()
	if m.all == nil {
		m.all = map[string]func() (T, error){}
	}
	f, ok := m.all[key]
	if !ok {
		f = sync.OnceValues(find)
		m.all[key] = f
	}
	m.mu.Unlock()
	return f()
}

// newPlanner makes one for a call: what it has heard is not asked again.
func newPlanner(s *session) (*planner, error) {
	cached, err := s.builder.Cached()
	if err != nil {
		return nil, err
	}
	return &planner{online: s.builder, cached: cached}, nil
}

// kernels lists those that the repositories of a target's system offer. It reads the base and the repositories' indexes, and so
// brings everything that planning needs into the cache.
func (p *planner) kernels(ctx context.Context, t matrix.Target, o recipe.Options) ([]distros.Kernel, error) {
	return p.kernelLists.get(place(t), func() ([]distros.Kernel, error) { return p.online.Kernels(ctx, t, o) })
}

// recipe plans an image. All images of a system are planned from one state of its base and its repositories.
func (p *planner) recipe(ctx context.Context, it item) (*recipe.Recipe, error) {
	if it.pins != nil {
		return it.recipe(ctx, p.online)
	}
	asked, err := recipe.Ask(it.target, it.plan)
	if err != nil {
		return nil, err
	}
	asked.Archive = nil // has nothing to do with packages
	request, err := json.Marshal(asked)
	if err != nil {
		return nil, err
	}
	pins, err := p.plans.get(place(it.target)+" "+string(request), func() (recipe.Pins, error) {
		if _, err := p.kernels(ctx, it.target, it.plan); err != nil {
			return recipe.Pins{}, err
		}
		pins, err := p.cached.FindPins(ctx, it.target, it.plan)
		if errors.Is(err, fetch.ErrOffline) { // an index that was read by an earlier run and has left the cache since
			pins, err = p.online.FindPins(ctx, it.target, it.plan)
		}
		return pins.Public(), err
	})
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", it.tag(), it.target.Arch, err)
	}
	return p.online.Recipe(it.target, it.plan, pins)
}
