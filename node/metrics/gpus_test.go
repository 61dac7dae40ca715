package metrics

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/node/daemons"
	"github.com/driver-container/driver-container/node/probe"
	"github.com/driver-container/driver-container/node/status"
)

// asker answers after a delay; the memory in use that it reports is the number of calls so far.
type asker struct {
	mu    sync.Mutex
	asked int
	takes time.Duration
	err   error
}

func (a *asker) query(ctx context.Context) (probe.Answer, error) {
	a.mu.Lock()
	a.asked++
	n, takes, err := a.asked, a.takes, a.err
	a.mu.Unlock()
	t := time.NewTimer(takes)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return probe.Answer{}, ctx.Err()
	case <-t.C:
	}
	return probe.Answer{Devices: []probe.Device{t4(uint64(n), nil)}}, err
}

func (a *asker) set(takes time.Duration, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.takes, a.err = takes, err
}

func (a *asker) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.asked
}

func newGPUs(a *asker, every time.Duration) *gpus {
	return &gpus{query: a.query, every: every, life: context.Background()}
}

// used is the memory in use that a scrape sees now; -1 without an answer.
func used(ctx context.Context, g *gpus) int {
	g.refresh(ctx)
	got, ok := g.last()
	if !ok {
		return -1
	}
	return int(got.devices[0].Memory.Used)
}

func TestAskedOnlyWhenScraped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := &asker{takes: time.Second}
		g := newGPUs(a, 30*time.Second)
		time.Sleep(time.Hour)
		for i, want := range []int{1, 1, 1, 2, 2, 2, 3} { // one scrape every ten seconds
			assert.Equalf(t, want, used(t.Context(), g), "scrape %d", i)
			time.Sleep(11 * time.Second)
		}
		time.Sleep(30 * time.Second)
		for range 8 { // concurrent scrapes cause one query
			go used(t.Context(), g)
		}
		time.Sleep(time.Minute)
		assert.Equal(t, 4, a.count())
		time.Sleep(time.Hour)
		_, ok := g.last()
		assert.Equalf(t, false, ok, "an hour later")
	})
}

// A scrape does not wait for a GPU that answers slowly, and the next scrape has the answer. A client that closes its
// connection stops waiting, but does not cancel the query.
func TestSlow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGPUs(&asker{takes: 7 * time.Second}, 30*time.Second)
		began := time.Now()
		assert.Equal(t, -1, used(t.Context(), g))
		assert.Equal(t, scrapeWait, time.Since(began))
		time.Sleep(10 * time.Second)
		assert.Equal(t, 1, used(t.Context(), g))
		time.Sleep(time.Minute)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began = time.Now()
		g.refresh(ctx)
		assert.Equal(t, time.Second, time.Since(began))
		time.Sleep(10 * time.Second)
		assert.Equal(t, 2, used(t.Context(), g))
	})
}

// TestHung: only the first scrape waits for a GPU that hangs. When it answers again, its values are back.
func TestHung(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := &asker{takes: 10 * time.Second, err: &daemons.HungError{}}
		g := newGPUs(a, 30*time.Second)
		for i, want := range []time.Duration{scrapeWait, 0, 0} {
			began := time.Now()
			g.refresh(t.Context())
			assert.Equalf(t, want, time.Since(began), "scrape %d", i)
			time.Sleep(time.Minute)
		}
		assert.Equal(t, 0.0, series(t, &collector{source: steady(serving()), gpus: g})["gpu_query_success"])
		a.set(time.Second, nil)
		g.refresh(t.Context())
		time.Sleep(time.Minute)
		assert.Equal(t, 5, used(t.Context(), g))
	})
}

func TestNotAsked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := &asker{}
		assert.Equal(t, -1, used(t.Context(), newGPUs(a, 0)))
		assert.Equal(t, -1, used(t.Context(), &gpus{every: time.Second}))
		assert.Equal(t, 0, a.count())
		g := newGPUs(a, time.Second)
		for _, err := range []error{nil, probe.ErrBusy} { // the previous answer stays until it is too old
			a.set(0, err)
			assert.Equal(t, 1, used(t.Context(), g))
			time.Sleep(time.Minute)
		}
		for _, err := range []error{status.ErrNotReady, probe.ErrEnded} {
			a.set(0, err)
			assert.Equalf(t, -1, used(t.Context(), g), "%v", err)
			time.Sleep(time.Minute)
		}
	})
}
