package node

import (
	"context"
	"testing"

	"github.com/driver-container/driver-container/node/preflight"
	"github.com/driver-container/driver-container/node/status"
)

// TestVerbs checks that the verbs preflight and compile change nothing that is loaded, and write no status.
func TestVerbs(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.leave(v470)
		saved := w.saved
		_, n := w.begin(life{version: v535})
		checks, err := n.Preflight(t.Context())
		if err != nil || len(checks) != 1 || checks[0].Name != preflight.Headers || n.prev != nil {
			t.Errorf("%v, %v, %v", checks, n.prev, err)
		}
		for _, want := range []string{status.Compiled, "cache"} {
			_, n := w.begin(life{version: v535})
			n.cfg.DRM = true
			set, source, err := n.Compile(context.Background(), "")
			if err != nil || source != want || len(set.Modules) != 3 {
				t.Errorf("%v from %s, %v; want %s", set, source, err, want)
			}
		}
		if w.saved != saved || w.outcome() != whole {
			t.Errorf("%s, status %+v", w.outcome(), w.saved)
		}
	})
}
