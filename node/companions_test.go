package node

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/node/config"
	"github.com/driver-container/driver-container/node/lock"
	"github.com/driver-container/driver-container/node/status"
)

func TestPeermem(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		i, n := w.begin(life{version: v535})
		serving := require.Value(lock.Acquire(t.Context(), lock.Options{Run: n.cfg.Run}))(t)
		defer serving.Release()
		st := status.Snapshot{Schema: status.Schema, State: status.Serving, Ready: true, PID: os.Getpid(), Up: &status.Driver{Version: v535, Flavour: "proprietary"}}
		load := func() error { return n.LoadPeermem(t.Context(), time.Minute, true) }
		assert.ErrorIsf(t, load(), status.ErrNotReady, "no driver")
		save := func() {
			require.NoError(t, status.Folder(n.cfg.Run).Save(st))
		}
		save()
		if err := load(); !errors.Is(err, status.ErrNotReady) || !strings.Contains(err.Error(), "mlx5_core of the host") {
			t.Errorf("no Mellanox: %v", err)
		}
		w.modules["mlx5_core"] = kmod.Module{Name: "mlx5_core"}
		assert.ErrorContainsf(t, load(), "compiled with the driver's other modules", "no modules")
		w.cache[v535] = true
		assert.ErrorContainsf(t, load(), "has no nvidia-peermem", "not in the set")
		i.extra = []string{"nvidia-peermem"}
		w.modules["ipmi_msghandler"] = kmod.Module{Name: "ipmi_msghandler"}
		require.NoError(t, w.insert("nvidia", v535, nil))
		if err := load(); err != nil || w.modules["nvidia_peermem"].Version != v535 {
			t.Errorf("%v, %v", err, w.modules)
		}
		assert.NoErrorf(t, load(), "again")
		delete(w.modules, "nvidia_peermem")
		st.Up.Version = v470
		save()
		if err := load(); !errors.Is(err, config.ErrConfig) || !strings.Contains(err.Error(), "the node has driver "+v470) {
			t.Errorf("another driver: %v", err)
		}
	})
}
