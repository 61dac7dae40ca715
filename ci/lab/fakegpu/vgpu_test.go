package fakegpu

import (
	"testing"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/node/vgpu"
)

// TestVGPU: the node's own reader finds the host's driver in the space of a vGPU, and none in that of a whole
// GPU. The driver finds the capabilities that it requires in both.
func TestVGPU(t *testing.T) {
	t.Parallel()
	for _, want := range []Host{{}, {"550.144.02", "R550_00"}, {"535.261.04", "R535_00_01"}} {
		m := T4
		if want != (Host{}) {
			m = T4.VGPU(want)
		}
		g := newGPU(m)
		host, guest, err := vgpu.Parse(g.config[:])
		assert.NoError(t, err)
		assert.Equalf(t, want != (Host{}), guest, "%s", m.Name)
		assert.Equalf(t, vgpu.Host(want), host, "%s", m.Name)
		found := map[uint64]bool{}
		for at := g.readConfig(firstCapability, 1); at != 0 && len(found) < 10; at = g.readConfig(uint32(at)+1, 1) {
			found[g.readConfig(uint32(at), 1)] = true
		}
		for _, id := range []uint64{0x01, 0x05, 0x10, 0x11} {
			assert.Equalf(t, true, found[id], "%s: capability %#x is there", m.Name, id)
		}
	}
}
