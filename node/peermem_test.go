package node

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/node/lock"
	"github.com/driver-container/driver-container/node/status"
)

func TestPeermem(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		i, n := w.begin(life{version: v535})
		serving, err := lock.Acquire(t.Context(), lock.Options{Path: lock.Path(n.cfg.Run), Legacy: lock.LegacyPath(n.cfg.Run)})
		if err != nil {
			t.Fatal(err)
		}
		defer serving.Release()
		st := status.Snapshot{Schema: status.Schema, State: status.Serving, Ready: true, PID: os.Getpid(), Up: &status.Driver{Version: v535, Flavour: "proprietary"}}
		load := func() error { return n.LoadPeermem(t.Context(), time.Minute, true) }
		if err := load(); !errors.Is(err, status.ErrNotReady) {
			t.Errorf("no driver: %v", err)
		}
		save := func() {
			if err := status.Folder(n.cfg.Run).Save(st); err != nil {
				t.Fatal(err)
			}
		}
		save()
		if err := load(); !errors.Is(err, status.ErrNotReady) || !strings.Contains(err.Error(), "mlx5_core of the host") {
			t.Errorf("no Mellanox: %v", err)
		}
		w.modules["mlx5_core"] = kmod.Module{Name: "mlx5_core"}
		if err := load(); err == nil || !strings.Contains(err.Error(), "compiled with the driver's other modules") {
			t.Errorf("no modules: %v", err)
		}
		w.cache[v535] = true
		if err := load(); err == nil || !strings.Contains(err.Error(), "has no nvidia-peermem") {
			t.Errorf("not in the set: %v", err)
		}
		i.extra = []string{"nvidia-peermem"}
		w.modules["ipmi_msghandler"] = kmod.Module{Name: "ipmi_msghandler"}
		if err := w.insert("nvidia", v535, nil); err != nil {
			t.Fatal(err)
		}
		if err := load(); err != nil || w.modules["nvidia_peermem"].Version != v535 {
			t.Errorf("%v, %v", err, w.modules)
		}
		if err := load(); err != nil {
			t.Errorf("again: %v", err)
		}
		delete(w.modules, "nvidia_peermem")
		st.Up.Version = v470
		save()
		if err := load(); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "the node has driver "+v470) {
			t.Errorf("another driver: %v", err)
		}
	})
}
