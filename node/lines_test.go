package node

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/logtest"
	"github.com/driver-container/driver-container/node/cli"
	"github.com/driver-container/driver-container/node/status"
)

// The lines for which the tests in virtual machines wait.
func TestLines(t *testing.T) {
	stories(t, map[string]string{
		"start and stop": `
			run 535
			end log ` + logtest.Ready + `535\.261\.03 flavour=proprietary kernel=6\.1\.0-1-amd64\n | log ` + logtest.Up + `\S+\n | log ` + logtest.Unloaded + `\n | log ` +
			logtest.PhaseFinished + `lock duration=\S+\n | log ` + logtest.PhaseFinished + `modules duration=\S+\n`,
		"adopted": `
			leave 535
			run 535
			end log ` + logtest.Adopting + `535\.261\.03\n | log predecessor found left="driver 535\.261\.03 \(proprietary\) up" state=serving\n`,
		"replaced, and in use": `
			leave 470, holder comes
			run 535 1m
				20s users go
			end log ` + logtest.ToBeReplaced + `\S | log ` + logtest.WaitsToReplace + `470\.256\.02: .*in use by pid 4711 | log ` + logtest.Unloading + `470\.256\.02\n`,
		"left in place": `
			run 535
				5s holder comes
			end log ` + logtest.LeftInPlace + `Could not unload NVIDIA driver kernel modules, driver is in use by pid 4711`,
		"a node that is not fit": `
			unfit
			run 535 waits
			end log error: ` + logtest.Unfit + `this node cannot run the driver as it is:\nheaders: no headers`,
		"meddlers": `
			run 535 1m
				7s lock file removed
				17s daemon dies
			end log ` + logtest.LockRecreated + ` | log error: ` + logtest.NotReady + `nvidia-persistenced is not running: `,
	})
}

// JSON has the phase of each line of a start.
func TestLinesAsJSON(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		var lines bytes.Buffer
		w.leave(v470)
		w.run(life{version: v535}, func(n *Node) { n.log = cli.Log(&lines, "json") })
		assert.Contains(t, lines.String(), `"level":"INFO","msg":"unloading the driver","phase":"replace","driver":"470.256.02"}`)
		assert.Contains(t, lines.String(), `"level":"INFO","msg":"driver unloaded, root unmounted"}`)
	})
}

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

// TestSnapshotOfALife checks that a listener receives each state including the last one, before others can
// take the node.
func TestSnapshotOfALife(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		var n *Node
		var i *instance
		seen := map[status.State]bool{}
		var last status.Snapshot
		locked := false
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		e := w.run(life{version: v535}, func(node *Node) {
			n, i = node, node.Kernel.(*instance)
			n.ended = func() { last, locked = n.Snapshot(), i.holds }
			go func() {
				defer close(ended)
				for {
					select {
					case <-ctx.Done():
						return
					case <-n.Changed():
						if st := n.Snapshot(); st.Holding() {
							seen[st.State] = true
						}
					}
				}
			}()
		})
		time.Sleep(time.Second)
		cancel()
		<-ended
		if e.err != nil || !seen[status.Starting] || !seen[status.Serving] || last.State != status.Absent || last.Up != nil || !locked || !i.usageEnded {
			t.Errorf("error %v, seen %v, last %+v, locked %v", e.err, seen, last, locked)
		}
		if c := last.Counters; c.Compiled != 1 || c.CacheMisses != 1 || c.CacheHits != 0 || c.BlockedUnloads != 0 {
			t.Errorf("%+v", c)
		}
	})
}
