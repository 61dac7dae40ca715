package node

import (
	"strings"
	"testing"

	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/node/status"
)

// TestRDMA checks that nvidia-peermem is loaded with the others if Mellanox's module is loaded, and otherwise
// left to reload_nvidia_peermem.
func TestRDMA(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		rdma := func(n *Node) {
			n.cfg.RDMA = true
			k := n.kernel.(*instance)
			k.extra, k.mellanox = []string{"nvidia-peermem"}, true
		}
		e := w.run(life{version: v535}, rdma)
		if e.err != nil || !e.served || w.outcome() != absent || strings.Contains(strings.Join(e.ops, " "), "insert nvidia_peermem") {
			t.Errorf("without mlx5_core: %v, %s", e.err, w.outcome())
		}
		w.modules["mlx5_core"] = kmod.Module{Name: "mlx5_core"}
		e = w.run(life{version: v535}, rdma)
		delete(w.modules, "mlx5_core")
		if e.err != nil || !e.served || w.outcome() != absent || !strings.Contains(strings.Join(e.ops, " "), "insert nvidia_peermem") {
			t.Errorf("with mlx5_core: %v, %s, %v", e.err, w.outcome(), e.ops)
		}
	})
}

// TestVerifyAfterLoad checks that the modules which a kernel shows after a load must be those that were
// loaded.
func TestVerifyAfterLoad(t *testing.T) {
	t.Parallel()
	for want, edit := range map[string]func(w *world){
		"another build of it is loaded already":                                    func(w *world) { w.faster = "OTHER" },
		"not as they were loaded: nvidia is loaded with other parameters: NVreg_A": func(w *world) { w.ignores = true },
		"has no nvidia-modeset":                                                    func(w *world) { w.fewer = true },
	} {
		t.Run(want, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				edit(w)
				e := w.run(life{version: v535, param: "NVreg_A=1"})
				w.faster = ""
				if e.err == nil || !strings.Contains(e.err.Error(), want) || e.served || e.status.State != status.Failed {
					t.Errorf("%v, state %s, %s", e.err, e.status.State, w.outcome())
				}
			})
		})
	}
}
