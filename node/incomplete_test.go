package node

import (
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/logtest"
)

// lose removes modules as rmmod does.
func (w *world) lose(modules ...string) {
	for _, name := range modules {
		if err := w.delete(name); err != nil {
			w.wrong = append(w.wrong, "rmmod "+name+": "+err.Error())
		}
	}
}

// full asks for nvidia-drm and nvidia-peermem too.
func full(n *Node) {
	n.cfg.DRM, n.cfg.RDMA = true, true
	k := n.Kernel.(*instance)
	k.extra, k.mellanox = []string{"nvidia-drm", "nvidia-peermem"}, true
}

// Modules that are missing beside the wanted nvidia are loaded at once, while other programs use it, and nothing else
// changes.
func TestLacksModules(t *testing.T) {
	told := map[string]string{}
	for _, lost := range []string{"nvidia_modeset", "nvidia_uvm", "nvidia_modeset nvidia_uvm"} {
		for cached, compiles := range map[string]string{"cached": "-", "uncached": "+"} {
			told[cached+" "+lost] = `
			leave 535, holder comes, ` + cached + ` 535, lose ` + lost + `
			run 535
				11s see Ready:true
			end served whole | 1 users | -insert nvidia | ` + compiles + `compile | files: <nil> | log ` + logtest.Completing + v535 + `: nvidia_`
		}
	}
	stories(t, told)
	stories(t, map[string]string{"all that was asked for": `
			load mlx5_core
			run 535
				7s holder comes
			end served whole | +insert nvidia_drm | +insert nvidia_peermem
			lose nvidia_drm nvidia_peermem nvidia_modeset
			run 535
			end served whole | 1 users | -insert nvidia | +insert nvidia_drm | +insert nvidia_peermem | -delete nvidia_uvm`}, full)
}
