package node

import (
	"errors"
	"os"
	"slices"
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

// companionsOf returns the states of the companions by name, and their reasons.
func companionsOf(st status.Snapshot) (fs, drv status.Companion) {
	for _, c := range st.Companions {
		if c.Name == "nvidia-fs" {
			fs = c
		} else {
			drv = c
		}
	}
	return fs, drv
}

// seen returns the status of a life at a moment while it serves.
func (w *world) seen(after time.Duration, st *status.Snapshot) func(*Node) {
	return func(*Node) { w.at(after, func() { *st = *w.saved }) }
}

// TestCompanions checks that companions are loaded after the driver and unloaded before it, and that a
// successor of a killed instance keeps them.
func TestCompanions(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		var st status.Snapshot
		l := life{version: v535, direct: true}
		e := w.run(l, w.seen(8*time.Second, &st))
		fs, drv := companionsOf(st)
		if !e.served || e.err != nil || w.outcome() != absent || !fs.Loaded || !drv.Loaded || fs.Reason+drv.Reason != "" || fs.Foreign || drv.Version == "" {
			t.Errorf("served %v, %v, %s, %+v, %+v", e.served, e.err, w.outcome(), fs, drv)
		}
		order := []string{"insert nvidia", "insert nvidia_fs", "insert gdrdrv", "delete nvidia_fs", "delete nvidia"}
		for i, op := range order[1:] {
			if slices.Index(e.ops, order[i]) >= slices.Index(e.ops, op) {
				t.Errorf("%s before %s: %v", op, order[i], e.ops)
			}
		}
		w.direct = true
		w.leave(v535)
		w.meddle("storage holder comes")
		e = w.run(l, w.seen(8*time.Second, &st))
		if !e.served || slices.Contains(e.ops, "insert nvidia_fs") || slices.Contains(e.ops, "delete nvidia_fs") {
			t.Errorf("adopted: %v", e.ops)
		}
		if e.status.State != status.Detached || !strings.Contains(e.status.Reason, "fio") || w.modules["nvidia_fs"].Name == "" {
			t.Errorf("in use by a program of GPUDirect Storage: %+v", e.status)
		}
		w.users = nil
		if e = w.run(life{version: v535, direct: true}); w.outcome() != absent {
			t.Errorf("%s, %v", w.outcome(), e.err)
		}
	})
}

// TestCompanionsMissing checks that a driver is ready without companions, and says why they are missing.
func TestCompanionsMissing(t *testing.T) {
	for name, test := range map[string]struct {
		edit func(w *world, n *Node)
		says string // of nvidia-fs
	}{
		"left out":     {func(w *world, _ *Node) { w.omitted = "nvidia-fs" }, "the modules for kernel  have no nvidia-fs 2.13.5: it does not compile: no such field"},
		"refused":      {func(w *world, _ *Node) { w.refused = "nvidia_fs" }, "load nvidia_fs: the kernel refused the module nvidia_fs"},
		"not in image": {func(_ *world, n *Node) { n.Info.Companions = nil }, "the image has no nvidia-fs; use an image with it (driver-build --companions nvidia-fs), or leave --gds (GDS_ENABLED) off"},
		"for open only": {func(_ *world, n *Node) {
			n.Info.Companions[0].Flavours = []string{"open"}
			n.Kernel.(*instance).extra = nil
		}, "is for the open kernel modules, and not for the proprietary ones"},
		"made without it": {func(_ *world, n *Node) { n.Kernel.(*instance).extra = []string{"gdrdrv"} }, "have no nvidia-fs 2.13.5: they were made without it; use an image"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				var st status.Snapshot
				e := w.run(life{version: v535, direct: true}, func(n *Node) { test.edit(w, n) }, w.seen(8*time.Second, &st))
				fs, drv := companionsOf(st)
				if !e.served || e.err != nil || !st.Ready || fs.Loaded || !strings.Contains(fs.Reason, test.says) || !slices.ContainsFunc(st.Warnings, func(s string) bool { return strings.Contains(s, test.says) }) {
					t.Errorf("served %v, %v, %+v, %q", e.served, e.err, fs, st.Warnings)
				}
				if drv.Loaded != (name == "left out" || name == "refused" || name == "made without it") {
					t.Errorf("%+v", drv)
				}
				if w.outcome() != absent {
					t.Errorf("%s", w.outcome())
				}
			})
		})
	}
}

// TestCompanionsReplaced checks that another build of a companion replaces the one that an earlier instance
// loaded, as soon as no program uses it, while the driver stays.
func TestCompanionsReplaced(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.direct = true
		w.leave(v535)
		w.build = "b"
		w.meddle("storage holder comes")
		var busy, after status.Snapshot
		e := w.run(life{version: v535, direct: true, asks: time.Minute}, w.seen(10*time.Second, &busy), w.seen(40*time.Second, &after),
			func(*Node) { w.at(20*time.Second, func() { w.users = nil }) })
		fs, drv := companionsOf(busy)
		if !busy.Ready || fs.SrcVersion != srcversion("nvidia_fs", v535) || !strings.Contains(fs.Reason, "nvidia_fs is in use by pid 4713 (fio)") || drv.SrcVersion != srcversion("gdrdrv", v535+"b") {
			t.Errorf("%+v, %+v", fs, drv)
		}
		if fs, _ = companionsOf(after); fs.SrcVersion != srcversion("nvidia_fs", v535+"b") || fs.Reason != "" {
			t.Errorf("%+v", fs)
		}
		if slices.Contains(e.ops[:slices.Index(e.ops, "delete nvidia_fs")], "delete nvidia") || w.outcome() != absent {
			t.Errorf("%s: %v", w.outcome(), e.ops)
		}
		w.wrong = nil // a record names what is about to be loaded, also while the driver serves
	})
}

// TestCompanionsPutBack checks that a stop that the kernel refuses half way loads companions again.
func TestCompanionsPutBack(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		l := life{version: v535, direct: true}
		w.run(l)
		first := w.run(l) // as the next one, without a compile
		at := slices.Index(first.ops, "delete nvidia_modeset")
		l.events = []event{{at, "uvm holder comes"}}
		e := w.run(l)
		if w.outcome() != whole || w.modules["nvidia_fs"].Name == "" || w.modules["gdrdrv"].Name == "" || e.status.State != status.Detached {
			t.Errorf("%s, %+v, %v", w.outcome(), e.status, w.modules)
		}
	})
}

// TestCompanionsForeign checks that companions of other programs stay, are named, and go with the driver.
func TestCompanionsForeign(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.sidecars = []kmod.Holder{{PID: 99, Command: "nvidia-gds-driv", PodName: "driver-x", PodNamespace: "gpu-operator"}}
		w.direct = true
		w.leave(v535)
		w.lose("nvidia_fs")
		w.meddle("nvidia_fs comes")
		var st status.Snapshot
		e := w.run(life{version: v535, direct: true}, w.seen(8*time.Second, &st))
		fs, _ := companionsOf(st)
		const who = "nvidia_fs 2.17 was loaded by another program, perhaps by nvidia-gds-driver, which runs as pid 99 (nvidia-gds-driv) in pod gpu-operator/driver-x"
		if !st.Ready || !fs.Loaded || !fs.Foreign || !strings.Contains(fs.Reason, who) || w.outcome() != absent {
			t.Errorf("%s, %+v", w.outcome(), fs)
		}
		e = w.run(life{version: v535}, func(*Node) { w.at(4*time.Second, func() { w.meddle("nvidia_fs comes"); w.pinned = "nvidia_fs" }) })
		if e.status.State != status.Detached || !strings.Contains(e.status.Reason, who) {
			t.Errorf("%+v", e.status)
		}
	})
}

// TestCompanionsLater checks that companions that are asked for while the driver runs are compiled and loaded
// without touching it, and that the driver stays if that fails.
func TestCompanionsLater(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.leave(v535)
		w.meddle("holder comes")
		delete(w.cache, v535)
		var st status.Snapshot
		l := life{version: v535, direct: true}
		e := w.run(l, w.seen(8*time.Second, &st))
		if fs, drv := companionsOf(st); !e.served || !fs.Loaded || !drv.Loaded || slices.Contains(e.ops, "insert nvidia") || !w.cache[v535] {
			t.Errorf("%+v, %+v: %v", fs, drv, e.ops)
		}
		w.lose("nvidia_fs", "gdrdrv")
		delete(w.cache, v535)
		l.events = []event{{slices.Index(e.ops, "compile") + 1, "fail"}}
		e = w.run(l, w.seen(8*time.Second, &st))
		if fs, _ := companionsOf(st); !e.served || !st.Ready || fs.Loaded || !strings.Contains(fs.Reason, "the modules of the loaded driver are not at hand") || !strings.Contains(strings.Join(st.Warnings, " "), "its companions are missing: injected failure") {
			t.Errorf("%+v, %q", fs, st.Warnings)
		}
		w.log = append(w.log, "failing symbol_get of non-GPLONLY symbol nvidia_p2p_get_pages.")
		e = w.run(life{version: v535, direct: true}, func(*Node) {
			w.at(6*time.Second, func() { w.log = append(w.log, "failing symbol_get of non-GPLONLY symbol nvidia_p2p_get_pages.") })
		})
		if !strings.Contains(strings.Join(e.status.Warnings, " "), "a program could not open /dev/nvidia-fs*") {
			t.Errorf("%q", e.status.Warnings)
		}
	})
}
