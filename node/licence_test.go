package node

import (
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/node/probe"
	"github.com/driver-container/driver-container/node/status"
	"github.com/driver-container/driver-container/node/vgpu"
)

// TestLicence: with --vgpu-licence=require a vGPU without a licence keeps the node from being ready, until it
// gets one. By default the node is ready, and the status says it. A licence that is lost later changes the
// status alone.
func TestLicence(t *testing.T) {
	for _, mode := range []string{vgpu.LicenceWarn, vgpu.LicenceRequire} {
		t.Run(mode, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				w.licence = &probe.Licence{}
				e := w.run(life{version: v535, asks: 20 * time.Minute}, func(n *Node) {
					n.cfg.VGPULicence = mode
					w.at(20*time.Second, func() {
						st := n.Snapshot()
						assert.Equal(t, mode == vgpu.LicenceWarn, st.Ready)
						assert.Equal(t, "unlicensed", st.GPUs[0].Licence)
						if mode == vgpu.LicenceRequire {
							assert.Contains(t, st.Reason, "vGPU without a licence: 00000000:05:00.0; it becomes slow")
						}
						w.licence = &probe.Licence{Licensed: true, Until: "2030-01-02T03:04:05Z"}
					})
					w.at(6*time.Minute, func() { w.licence = &probe.Licence{} })
					w.at(12*time.Minute, func() {
						st := n.Snapshot()
						assert.Equalf(t, "unlicensed", st.GPUs[0].Licence, "the licence that was lost")
						if !st.Ready || st.State != status.Serving || st.Reason != "" {
							t.Errorf("a licence that is lost later is no reason: %+v", st)
						}
						w.licence = &probe.Licence{Licensed: true}
					})
					w.at(18*time.Minute, func() { assert.Equal(t, "licensed", n.Snapshot().GPUs[0].Licence) })
					w.at(80*time.Second, func() {
						if st := n.Snapshot(); st.State != status.Serving || !st.Ready || mode == vgpu.LicenceRequire && st.GPUs[0].Licence != "licensed until 2030-01-02T03:04:05Z" {
							t.Errorf("it does not recover: %+v", st)
						}
					})
				})
				assert.NoError(t, e.err)
			})
		})
	}
}
