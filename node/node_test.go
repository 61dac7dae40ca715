package node

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/node/status"
)

// TestBeat checks that an instance updates its heartbeat while it waits for the lock.
func TestBeat(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.locked = true
		_, n := w.begin(life{version: v535})
		n.instanceFile = filepath.Join(w.dir, "instance")
		n.status.ChangeUnsaved(func(st *status.Snapshot) { st.Instance = status.NewInstance() })
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
		defer cancel()
		w.at(9*time.Minute, func() {
			assert.NoError(t, status.Alive(n.instanceFile, time.Now()))
		})
		assert.NoError(t, n.Run(ctx, t.Context()))
		if another := status.NewInstance(); len(another) != 16 || another == n.status.Get().Instance {
			t.Error("names of instances are not unique")
		}
		_, n = w.begin(life{version: v535})
		n.instanceFile = "/nonexistent/instance"
		assert.Errorf(t, n.Run(ctx, t.Context()), "no name of the instance")
	})
}
