package node

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/logtest"
	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/node/cli"
	"github.com/driver-container/driver-container/node/config"
	"github.com/driver-container/driver-container/node/devices"
	"github.com/driver-container/driver-container/node/preflight"
	"github.com/driver-container/driver-container/node/status"
)

// at changes the world after a while.
func (w *world) at(after time.Duration, f func()) {
	time.AfterFunc(after, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		f()
	})
}

// bubble calls f with a new world. No life in it may break a rule.
func bubble(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory(t))
		f(t, w)
		assert.Equal(t, "", strings.Join(w.wrong, "; "))
	})
}

// TestTwoInstances is scenario 4: the second instance waits and takes over; if it is stopped while it waits,
// it touches nothing.
func TestTwoInstances(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		first, n1 := w.begin(life{version: v535})
		ctx, stop := context.WithCancel(context.Background())
		ended, shown := make(chan error), status.Snapshot{}
		go func() { ended <- n1.Run(ctx, t.Context()) }()
		time.Sleep(3 * time.Second)
		i, waiting := w.begin(life{version: v535})
		w.at(3*time.Second, func() { shown = waiting.Status.Get() })
		stopCtx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		saved := *w.saved
		if err := waiting.Run(stopCtx, t.Context()); err != nil || !first.served || w.saved.Instance != saved.Instance || !w.saved.Updated.Equal(saved.Updated) || i.holds {
			t.Errorf("stopped while waiting: %v, status %+v", err, w.saved)
		}
		if shown.State != status.Waiting || shown.WaitsFor != status.ForLock || shown.Holding() || !strings.Contains(shown.Reason, "held by pid 7, pod gpu/old") {
			t.Errorf("while it waits: %+v", shown) // in memory only: the file belongs to the holder
		}
		assert.ErrorIsf(t, assert.Err(waiting.AskUsage(t.Context())), status.ErrNotReady, "usage")
		second := make(chan end)
		go func() { second <- w.run(life{version: v535, asks: time.Minute}) }()
		time.Sleep(5 * time.Second)
		stop()
		assert.NoErrorf(t, <-ended, "the first one")
		first.over()
		if e := <-second; e.err != nil || !e.served || w.outcome() != absent {
			t.Errorf("the second one: served %v, error %v, %s", e.served, e.err, w.outcome())
		}
	})
}

// TestBeat checks that an instance updates its heartbeat while it waits for the lock.
func TestBeat(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.locked = true
		_, n := w.begin(life{version: v535})
		n.instanceFile = filepath.Join(w.dir, "instance")
		n.Status.ChangeUnsaved(func(st *status.Snapshot) { st.Instance = rand.Text() })
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
		defer cancel()
		w.at(9*time.Minute, func() {
			assert.NoError(t, status.Alive(n.instanceFile, time.Now()))
		})
		assert.NoError(t, n.Run(ctx, t.Context()))
		_, n = w.begin(life{version: v535})
		n.instanceFile = "/nonexistent/instance"
		assert.Errorf(t, n.Run(ctx, t.Context()), "no name of the instance")
	})
}

// TestVerbs checks that the verbs preflight and compile change nothing that is loaded, and write no status.
func TestVerbs(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.leave(v470)
		saved := w.saved
		_, n := w.begin(life{version: v535})
		checks, err := n.Preflight(t.Context())
		if err != nil || len(checks) != 1 || checks[0].Name != preflight.Headers {
			t.Errorf("%v, %v", checks, err)
		}
		for _, want := range []string{status.Compiled, "cache"} {
			_, n := w.begin(life{version: v535})
			n.cfg.DRM = true
			set, source, err := n.Compile(context.Background(), "")
			if err != nil || source != want || len(set.Modules) != 3 {
				t.Errorf("%v from %s, %v; want %s", set, source, err, want)
			}
		}
		assert.Equal(t, whole, w.outcome())
		assert.Equalf(t, true, w.saved == saved, "status %+v", w.saved)
	})
}

// TestUnload checks that `unload` takes down what an instance left.
func TestUnload(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		var log logtest.Log
		for _, prepare := range []func(){func() {}, func() { w.leave(v535) }, func() { w.leave(v470) }, func() { w.layers = []string{v470 + "-"} },
			func() {
				w.nodes = []devices.Node{{Path: "/dev/nvidia0", Made: true}}
				w.saved.Up = &status.Driver{Nodes: w.nodes}
			}} {
			prepare()
			i, n := w.begin(life{version: v535})
			n.Log = log.Logger()
			if err := n.Unload(t.Context(), t.Context()); err != nil || w.outcome() != absent {
				t.Errorf("error %v, %s", err, w.outcome())
			}
			i.over()
			w.saved = &status.Snapshot{Schema: status.Schema, BootID: "boot", State: status.Detached, Reason: "x"}
		}
		assert.Equal(t, 3, strings.Count(log.String(), "there was no driver to unload"))
		w.saved = nil
		w.leave(v535)
		w.meddle("holder comes")
		i, n := w.begin(life{version: v535, onBusy: config.BusyFail})
		if err := n.Unload(t.Context(), t.Context()); !errors.Is(err, ErrLeft) || w.outcome() != whole {
			t.Errorf("in use: error %v, %s", err, w.outcome())
		}
		i.over()
	})
}

// The lines for which the tests in virtual machines wait, beside those of TestUpgrade and TestInUseAtStop.
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
		w.run(life{version: v535}, func(n *Node) { n.Log = cli.Log(&lines, "json") })
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
			n.Ended = func() { last, locked = n.Status.Get(), i.holds }
			go func() {
				defer close(ended)
				for {
					select {
					case <-ctx.Done():
						return
					case <-n.Status.Changed():
						if st := n.Status.Get(); st.Holding() {
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

// A kernel that hangs in the start of a module takes 10 s of a stop. The stop ends within the grace period of the
// operator's pods all the same, and says what hangs.
func TestStopOfHangingModule(t *testing.T) {
	for _, module := range []string{"nvidia", "nvidia_uvm"} {
		t.Run(module, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				w.hangs = module
				e := w.run(life{version: v535}, func(n *Node) { n.Grace = nil })
				took := e.took - 12*time.Second
				if took > 20*time.Second || !errors.Is(e.err, kmod.ErrStuck) || e.status.State != status.Failed {
					t.Errorf("%s after the signal: %v, state %s", took, e.err, e.status.State)
				}
			})
		})
	}
}
