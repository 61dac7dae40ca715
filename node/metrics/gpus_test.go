package metrics

import (
	"context"
	"errors"
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
	return &gpus{query: a.query, every: every, wait: scrapeWait, now: time.Now}
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
		if a.count() != 4 {
			t.Errorf("asked %d times", a.count())
		}
		time.Sleep(time.Hour)
		if got, ok := g.last(); ok {
			t.Errorf("an hour later: %+v", got)
		}
	})
}

// A scrape does not wait for a GPU that answers slowly, and the next scrape has the answer.
func TestSlow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := &asker{takes: 7 * time.Second}
		g := newGPUs(a, 30*time.Second)
		began := time.Now()
		if got := used(t.Context(), g); got != -1 || time.Since(began) != scrapeWait {
			t.Error(got, time.Since(began))
		}
		time.Sleep(56 * time.Second)
		if got := used(t.Context(), g); got != 1 {
			t.Error("the answer of the question before", got)
		}
		a.set(10*time.Second, nil)
		// A client that closes its connection stops waiting, but does not cancel the query.
		ctx, cancel := context.WithCancel(t.Context())
		time.Sleep(time.Minute)
		time.AfterFunc(time.Second, cancel)
		began = time.Now()
		if g.refresh(ctx); time.Since(began) != time.Second || a.count() != 3 {
			t.Error(time.Since(began), a.count())
		}
		time.Sleep(30 * time.Second)
		if got, _ := g.last(); time.Since(got.at) > 25*time.Second {
			t.Error(got)
		}
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
		a.set(time.Second, nil)
		g.refresh(t.Context())
		time.Sleep(time.Minute)
		began := time.Now()
		if got := used(t.Context(), g); got != 5 || time.Since(began) != time.Second {
			t.Error(got, time.Since(began))
		}
	})
}

func TestNotAsked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := &asker{}
		if got := used(t.Context(), newGPUs(a, 0)); got != -1 || a.count() != 0 {
			t.Error(got, a.count())
		}
		assert.Equal(t, -1, used(t.Context(), &gpus{every: time.Second, now: time.Now}))
		g := newGPUs(a, time.Second)
		assert.Equal(t, 1, used(t.Context(), g))
		time.Sleep(time.Minute)
		a.set(0, probe.ErrBusy) // the previous answer stays until it is too old
		assert.Equal(t, 1, used(t.Context(), g))
		for _, err := range []error{status.ErrNotReady, probe.ErrEnded} {
			time.Sleep(time.Minute)
			a.set(0, err)
			if got := used(t.Context(), g); got != -1 {
				t.Error(err, got)
			}
		}
	})
}

func TestPartialAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGPUs(&asker{err: errors.New("device 1: GPU is lost")}, time.Second)
		g.refresh(t.Context())
		got := series(t, &collector{source: steady(serving()), gpus: g})
		if got["gpu_query_success"] != 0 || got["gpus_answering"] != 1 || got["gpu_memory_used_bytes{gpu=0000:3b:00.0,model=Tesla T4,uuid=GPU-1}"] != 1 {
			t.Error(got)
		}
	})
}
