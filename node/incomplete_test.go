package node

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/logtest"
	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/node/config"
	"github.com/driver-container/driver-container/node/modules"
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
