package node

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/logtest"
	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/node/config"
	"github.com/driver-container/driver-container/node/modules"
	"github.com/driver-container/driver-container/node/status"
)

// lose removes modules as rmmod does.
func (w *world) lose(modules ...string) {
	for _, name := range modules {
		if err := w.delete(name); err != nil {
			w.wrong = append(w.wrong, "rmmod "+name+": "+err.Error())
		}
	}
}

// start returns the operations of a life until it served.
func (e end) start() string {
	begin := slices.Index(e.ops, "write serving")
	return strings.Join(e.ops[:max(begin, 0)], ", ")
}

// full asks for nvidia-drm and nvidia-peermem too.
func full(n *Node) {
	n.cfg.DRM, n.cfg.RDMA = true, true
	k := n.Kernel.(*instance)
	k.extra, k.mellanox = []string{"nvidia-drm", "nvidia-peermem"}, true
}

// TestLacksModules checks that modules that are missing beside the wanted nvidia are loaded at once, while
// other programs use it, and that nothing else changes.
func TestLacksModules(t *testing.T) {
	for _, lost := range []string{"nvidia_modeset", "nvidia_uvm", "nvidia_modeset nvidia_uvm", "nvidia_drm", "nvidia_drm nvidia_modeset", "nvidia_peermem",
		"nvidia_drm nvidia_peermem nvidia_modeset nvidia_uvm"} {
		for _, cached := range []bool{true, false} {
			t.Run(lost, func(t *testing.T) {
				bubble(t, func(t *testing.T, w *world) {
					w.modules["mlx5_core"], w.leaks = kmod.Module{Name: "mlx5_core"}, []string{"mlx5_core"}
					edit := func(n *Node) {
						if n.cfg.OnBusy = config.BusyDetach; !strings.HasPrefix(lost, "nvidia_modeset") && lost != "nvidia_uvm" {
							full(n)
						}
					}
					w.run(life{version: v535}, edit)
					w.run(life{version: v535}, edit, func(*Node) { w.at(7*time.Second, func() { w.meddle("holder comes") }) })
					w.cache[v535] = cached
					w.lose(strings.Fields(lost)...)
					var log logtest.Log
					e := w.run(life{version: v535}, edit, func(n *Node) { n.log = log.Logger() })
					if e.err != nil || !e.served || w.outcome() != whole || len(w.users) != 1 {
						t.Fatalf("served %v, error %v, %s, users %v\n%s", e.served, e.err, w.outcome(), w.users, &log)
					}
					if ops := e.start(); strings.Contains(ops, "delete") || strings.Contains(ops, "insert nvidia,") || strings.Contains(ops, "compile") == cached {
						t.Errorf("operations until it served: %s", ops)
					}
					for name := range strings.FieldsSeq(lost) {
						if w.modules[name].Version != v535 || !modules.Named(e.status.Up.Modules, name) {
							t.Errorf("%s: %v, record %+v", name, w.modules[name], e.status.Up)
						}
					}
					if err := modules.CheckFiles(e.status.Up.Modules); err != nil && cached {
						t.Error(err)
					}
					if !strings.Contains(log.String(), logtest.Completing+v535+": nvidia_") {
						t.Error(&log)
					}
				})
			})
		}
	}
}

// TestReplacesOnlyWhatDiffers checks that a module that differs is replaced alone, as soon as nobody uses it,
// while other programs go on using the driver.
func TestReplacesOnlyWhatDiffers(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.leave(v535)
		w.meddle("holder comes")
		w.lose("nvidia_modeset")
		e := w.run(life{version: v535, uvmParam: "NVreg_A=1"})
		if e.err != nil || !e.served || w.outcome() != whole || !slices.Equal(w.params["nvidia_uvm"], []string{"NVreg_A=1"}) {
			t.Errorf("served %v, error %v, %s, parameters %v", e.served, e.err, w.outcome(), w.params)
		}
		if ops := e.start(); strings.Contains(ops, "delete nvidia,") || !strings.Contains(ops, "delete nvidia_uvm") || strings.Contains(ops, "insert nvidia,") {
			t.Errorf("operations until it served: %s", ops)
		}

		w.meddle("uvm holder comes")
		w.lose("nvidia_modeset")
		var seen status.Snapshot
		e = w.run(life{version: v535, asks: time.Minute}, func(*Node) {
			w.at(20*time.Second, func() { seen = *w.saved; w.users = w.users[:1] })
		})
		if seen.State != status.Waiting || seen.WaitsFor != status.ForHolders || len(seen.Holders) != 1 || seen.Holders[0].PID != 4712 ||
			!strings.Contains(seen.Reason, `driver 535.261.03 cannot be completed yet: nvidia_uvm was loaded with parameters ["NVreg_A=1"], wanted are []; nvidia_modeset is not loaded: Could not unload NVIDIA driver kernel modules, driver is in use by pid 4712`) {
			t.Errorf("while it waits: %+v", seen)
		}
		if e.err != nil || !e.served || w.outcome() != whole || len(w.params["nvidia_uvm"]) > 0 || len(w.users) != 1 {
			t.Errorf("served %v, error %v, %s, parameters %v", e.served, e.err, w.outcome(), w.params)
		}
	})
}

// TestCompletionFails checks that a module that cannot be loaded beside a driver in use leaves that driver as
// it was, the modules that were replaced included.
func TestCompletionFails(t *testing.T) {
	for _, fails := range []string{"insert nvidia_uvm", "insert nvidia_modeset", "delete nvidia_uvm"} {
		t.Run(fails, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				w.leave(v535)
				w.meddle("holder comes")
				w.lose("nvidia_modeset")
				trial := w.clone(t).run(life{version: v535, uvmParam: "NVreg_A=1"})
				at := slices.Index(trial.ops, fails) + 1
				e := w.run(life{version: v535, uvmParam: "NVreg_A=1", events: []event{{at, "fail"}}})
				if !errors.Is(e.err, errInjected) || !errors.Is(e.err, ErrLeft) || e.served || e.status.State != status.Detached {
					t.Errorf("error %v, served %v, %+v", e.err, e.served, e.status)
				}
				if w.modules["nvidia_uvm"].Version != v535 || len(w.params["nvidia_uvm"]) > 0 || w.modules["nvidia_modeset"].Name != "" {
					t.Errorf("modules %v, parameters %v", w.modules, w.params)
				}
				if i := slices.IndexFunc(e.status.Up.Modules, func(m status.Module) bool { return m.Name == "nvidia_uvm" }); i < 0 || e.status.Up.Modules[i].Params != nil {
					t.Errorf("record %+v", e.status.Up)
				}
				e = w.run(life{version: v535})
				w.must(t, e, true, whole)
			})
		})
	}
}

// TestKilledWhileLoading checks that the successor of an instance that was killed between two modules loads
// the rest, although only the record says what the first one was: its files were not kept yet.
func TestKilledWhileLoading(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		trial := w.clone(t).run(life{version: v535})
		at := slices.Index(trial.ops, "insert nvidia_modeset") + 1
		if e := w.run(life{version: v535, events: []event{{at, "kill"}}}); !e.killed || w.cache[v535] {
			t.Fatalf("%+v", e)
		}
		e := w.run(life{version: v535}, func(*Node) { w.at(7*time.Second, func() { w.meddle("holder comes") }) })
		if ops := e.start(); e.err != nil || !e.served || strings.Contains(ops, "delete") || strings.Contains(ops, "insert nvidia,") || w.outcome() != whole {
			t.Errorf("served %v, error %v, %s: %s", e.served, e.err, w.outcome(), ops)
		}
		if err := modules.CheckFiles(e.status.Up.Modules); err != nil { // also the one that was loaded from the dead container's files
			t.Error(err)
		}
	})
}
