package node

import (
	"slices"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/node/status"
)

// TestRDMA checks that nvidia-peermem is loaded with the others if Mellanox's module is loaded, and otherwise
// left to reload_nvidia_peermem.
func TestRDMA(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		for _, there := range []bool{false, true} {
			if there {
				w.modules["mlx5_core"], w.leaks = kmod.Module{Name: "mlx5_core"}, []string{"mlx5_core"}
			}
			e := w.run(life{version: v535}, full)
			w.must(t, e, true, absent)
			assert.Equalf(t, there, slices.Contains(e.ops, "insert nvidia_peermem"), "loaded")
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
