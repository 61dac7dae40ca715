// Package survey asks about many images without building one: which are due, which could be built, what the
// registry has of them, which kernels there are, and what a lock is to say.
//
// Images share bases, package repositories and most packages, so each question is asked once for all of them.
// The package prints nothing and knows no flags and no exit codes: these are the command's.
package survey

import (
	"context"
	"encoding/json"
	"errors"
	"sync"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images"
	"github.com/driver-container/driver-container/images/batch"
	"github.com/driver-container/driver-container/images/cause"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/recipe"
)

// survey asks registries, package repositories and servers about many images. Images share bases,
// repositories and most packages, so each question to the network is asked once, and equal requests are
// planned once.
type survey struct {
	online  *images.Builder
	cached  *images.Planner
	kernels memo[[]distros.Kernel] // by platform
	pins    memo[recipe.Pins]      // by platform and request
	bases   memo[string]           // digest, by reference and architecture
	sizes   memo[int64]            // by address
}

// newSurvey starts a survey for one call. All images of a system are planned from the state that the builder
// has read once, by a planner that reads the cache alone.
func newSurvey(b *images.Builder) (*survey, error) {
	cached, err := b.Cached()
	return &survey{online: b, cached: cached}, err
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

// platform is what package repositories belong to: a system and an architecture.
func platform(t matrix.Target) string { return t.System.ID + " " + t.Arch }

// offered lists the kernels that the repositories of a target's system offer. It reads the base and the
// indexes of the repositories, and so brings everything that planning needs into the cache.
func (s *survey) offered(ctx context.Context, t matrix.Target, o recipe.Options) ([]distros.Kernel, error) {
	return s.kernels.get(platform(t), func() ([]distros.Kernel, error) { return s.online.Kernels(ctx, t, o) })
}

// find finds the pins of an image, unless the lock has them. All images of a system are planned from one
// state of its base and its repositories. No programs are needed.
func (s *survey) find(ctx context.Context, im batch.Image) (recipe.Pins, error) {
	if im.Pins != nil {
		return *im.Pins, nil
	}
	asked, err := recipe.Ask(im.Target, im.Plan)
	if err != nil {
		return recipe.Pins{}, err
	}
	asked.Archive = nil // has nothing to do with packages
	request, err := json.Marshal(asked)
	if err != nil {
		return recipe.Pins{}, err
	}
	pins, err := s.pins.get(platform(im.Target)+" "+string(request), func() (recipe.Pins, error) {
		if _, err := s.offered(ctx, im.Target, im.Plan); err != nil {
			return recipe.Pins{}, err
		}
		pins, err := s.cached.FindPins(ctx, im.Target, im.Plan)
		if errors.Is(err, fetch.ErrOffline) { // an earlier run has read an index, and it has left the cache since
			pins, err = s.online.FindPins(ctx, im.Target, im.Plan)
		}
		return pins.Public(), err
	})
	if err != nil {
		return recipe.Pins{}, cause.About(im.Tag(), err)
	}
	return pins, nil
}

// recipe is what an image is made from now, with the programs of the builder.
func (s *survey) recipe(ctx context.Context, im batch.Image) (*recipe.Recipe, error) {
	pins, err := s.find(ctx, im)
	if err != nil {
		return nil, err
	}
	return s.online.Recipe(im.Target, im.Plan, pins)
}
