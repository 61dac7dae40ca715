package node

import (
	"context"
	"crypto/rand"
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
		n.status.ChangeUnsaved(func(st *status.Snapshot) { st.Instance = rand.Text() })
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
		defer cancel()
		w.at(9*time.Minute, func() {
			assert.NoError(t, status.Alive(n.instanceFile, time.Now()))
		})
		assert.NoError(t, n.Run(ctx, t.Context()))
		_, n = w.begin(life{version: v535})
		n.instanceFile = "/nonexistent/instance"
		assert.Errorf(t, n.Run(ctx, t.Context()), "no name of the instance")
	})
}
