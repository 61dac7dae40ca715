package node

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/node/status"
)

// at changes the world after a while.
func (w *world) at(after time.Duration, f func()) {
	time.AfterFunc(after, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		f()
	})
}

// bubble calls f with a new world. No life in it may break a rule.
func bubble(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory(t))
		f(t, w)
		assert.Equal(t, "", strings.Join(w.wrong, "; "))
	})
}

// TestTwoInstances is scenario 4: the second instance waits and takes over; if it is stopped while it waits,
// it touches nothing.
func TestTwoInstances(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		first, n1 := w.begin(life{version: v535})
		ctx, stop := context.WithCancel(context.Background())
		ended, shown := make(chan error), status.Snapshot{}
		go func() { ended <- n1.Run(ctx, t.Context()) }()
		time.Sleep(3 * time.Second)
		i, waiting := w.begin(life{version: v535})
		w.at(3*time.Second, func() { shown = waiting.Snapshot() })
		stopCtx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		saved := *w.saved
		if err := waiting.Run(stopCtx, t.Context()); err != nil || !first.served || w.saved.Instance != saved.Instance || !w.saved.Updated.Equal(saved.Updated) || i.holds {
			t.Errorf("stopped while waiting: %v, status %+v", err, w.saved)
		}
		if shown.State != status.Waiting || shown.WaitsFor != status.ForLock || shown.Holding() || !strings.Contains(shown.Reason, "held by pid 7, pod gpu/old") {
			t.Errorf("while it waits: %+v", shown) // in memory only: the file belongs to the holder
		}
		assert.ErrorIsf(t, assert.Err(waiting.AskUsage(t.Context())), status.ErrNotReady, "usage")
		second := make(chan end)
		go func() { second <- w.run(life{version: v535, asks: time.Minute}) }()
		time.Sleep(5 * time.Second)
		stop()
		assert.NoErrorf(t, <-ended, "the first one")
		first.over()
		if e := <-second; e.err != nil || !e.served || w.outcome() != absent {
			t.Errorf("the second one: served %v, error %v, %s", e.served, e.err, w.outcome())
		}
	})
}
