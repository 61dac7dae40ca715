package node

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/node/config"
	"github.com/driver-container/driver-container/node/devices"
	"github.com/driver-container/driver-container/node/status"
)

const second = "0000:06:00.0"

// bind binds the second GPU to a driver. The world is locked.
func (w *world) bind(driver string) {
	w.bus = slices.Clone(w.bus)
	w.bus[1].Driver = driver
}

// gpusOf returns the GPUs of a status as text.
func gpusOf(st *status.Snapshot) string {
	var out []string
	for _, g := range st.GPUs {
		text := g.Address + " " + string(g.State)
		if g.Works {
			text += " works"
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}

// TestLentGPU: a GPU is lent to a VM and comes back while the container serves. The driver is ready all the
// time, the status names the GPU, and a GPU that was lent at the start gets its device file.
func TestLentGPU(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.bus = append(w.bus, t4At(second))
		w.bind("vfio-pci")
		var seen []string
		var warnings string
		look := func(after time.Duration) {
			w.at(after, func() {
				text := gpusOf(w.saved)
				if !w.saved.Ready {
					text += ", not ready: " + w.saved.Reason
				}
				if slices.ContainsFunc(w.nodes, func(n devices.Node) bool { return n.Minor == 1 }) {
					text += ", its file is there"
				}
				seen = append(seen, text)
			})
		}
		e := w.run(life{version: v535, asks: time.Minute}, func(*Node) {
			look(9 * time.Second)
			w.at(11*time.Second, func() { w.bind("") })
			look(19 * time.Second)
			w.at(21*time.Second, func() { w.bind("nvidia") })
			look(29 * time.Second)
			w.at(30*time.Second, func() {
				w.log = []string{"NVRM: Attempting to remove device " + second + " with non-zero usage count!"}
			})
			w.at(31*time.Second, func() { w.bind("vfio-pci") })
			look(39 * time.Second)
			w.at(41*time.Second, func() { warnings = strings.Join(w.saved.Warnings, " ") })
		})
		assert.Containsf(t, warnings, "GPU "+second+" is unbound from the driver although it is in use", "warnings")
		w.must(t, e, true, absent)
		const ours = "0000:05:00.0 ours works, "
		assert.Same(t, []string{ours + second + " lent", ours + second + " lent", ours + second + " ours works, its file is there",
			ours + second + " lent, its file is there"}, seen)
	})
}

// TestAllLent: without a GPU of its own the driver stays ready, also for the container after this one.
func TestAllLent(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.bus = append(w.bus, t4At(second))
		var seen []string
		usage := make(chan error, 1)
		see := func() { seen = append(seen, gpusOf(w.saved)) }
		e := w.run(life{version: v535, asks: time.Hour}, func(n *Node) {
			k := n.Kernel.(*instance)
			w.at(11*time.Second, func() { w.bind("vfio-pci"); w.bus[0].Driver = "vfio-pci" })
			asked := func() { _, err := n.AskUsage(context.Background()); usage <- err }
			time.AfterFunc(18*time.Second, asked)
			w.at(19*time.Second, func() { see(); k.before = func(string) error { k.die(); return nil } })
		})
		if !e.served || w.outcome() != whole {
			t.Errorf("served %v, %s", e.served, w.outcome())
		}
		assert.ErrorIsf(t, <-usage, status.ErrNotReady, "usage of no GPU")
		e = w.run(life{version: v535}, func(*Node) { w.at(9*time.Second, see) })
		w.must(t, e, true, absent)
		assert.Same(t, []string{"0000:05:00.0 lent, " + second + " lent", "0000:05:00.0 lent, " + second + " lent"}, seen)
	})
}

// TestLostGPU: a GPU falls off the bus. The reason names it and what to do, the other GPU is served, and the
// driver is ready again when the GPU is back.
func TestLostGPU(t *testing.T) {
	const xid = "NVRM: Xid (PCI:0000:06:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
	for name, c := range map[string]struct {
		fall, rise func(w *world)
		policy     string
		reason     string
	}{
		"silent": {
			fall: func(w *world) { w.bus[1].Silent = true }, rise: func(w *world) { w.bus[1].Silent = false },
			policy: config.GPURequire, reason: "all ones",
		},
		"gone": {
			fall: func(w *world) { w.bus = w.bus[:1] }, rise: func(w *world) { w.bus = append(w.bus, t4At(second)) },
			policy: config.GPURequire, reason: "not on the PCI bus any more",
		},
		"Xid 79": {fall: func(w *world) { w.log = []string{xid} }, rise: func(*world) {}, policy: config.GPURequire, reason: xid},
		"gone, and that is a warning": {
			fall: func(w *world) { w.bus = w.bus[:1] }, rise: func(w *world) { w.bus = append(w.bus, t4At(second)) },
			policy: config.GPUWarn, reason: "not on the PCI bus any more",
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				w.bus = append(w.bus, t4At(second))
				var lost, back status.Snapshot
				e := w.run(life{version: v535, asks: 2 * time.Minute}, func(n *Node) {
					n.cfg.GPUInit = c.policy
					w.at(11*time.Second, func() { w.bus = slices.Clone(w.bus); c.fall(w) })
					w.at(23*time.Second, func() { lost = *w.saved })
					w.at(26*time.Second, func() { w.bus = slices.Clone(w.bus); c.rise(w) })
					w.at(100*time.Second, func() { back = *w.saved })
				})
				if e.err != nil || w.outcome() != absent {
					t.Errorf("error %v, %s", e.err, w.outcome())
				}
				text := lost.Reason + strings.Join(lost.Warnings, " ")
				for _, want := range []string{"GPU " + second + " (10de:1eb8) fell off the bus: ", c.reason, "the other GPUs go on", "Drain the node"} {
					assert.Containsf(t, text, want, "the reason")
				}
				if lost.Ready != (c.policy == config.GPUWarn) || gpusOf(&lost) != "0000:05:00.0 ours works, "+second+" lost" {
					t.Errorf("while it is lost: ready %v, %s", lost.Ready, gpusOf(&lost))
				}
				if !back.Ready || gpusOf(&back) != "0000:05:00.0 ours works, "+second+" ours works" {
					t.Errorf("when it is back: %s %q, %s", back.State, back.Reason, gpusOf(&back))
				}
			})
		})
	}
}

// TestLostAtTheStart: a start with a lost GPU serves the others, and is not ready because of it.
func TestLostAtTheStart(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.bus = append(w.bus, t4At(second))
		w.bus[1].Silent = true
		var seen status.Snapshot
		e := w.run(life{version: v535}, func(*Node) { w.at(9*time.Second, func() { seen = *w.saved }) })
		if e.err != nil || e.served || w.outcome() != absent || seen.State != status.Degraded || gpusOf(&seen) != "0000:05:00.0 ours works, "+second+" lost" {
			t.Errorf("error %v, served %v, %s; %s %q %s", e.err, e.served, w.outcome(), seen.State, seen.Reason, gpusOf(&seen))
		}
	})
}

// TestGPULeavesInAStop: a GPU is lent while the stop waits for a process. The stop ends as usual.
func TestGPULeavesInAStop(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.bus = append(w.bus, t4At(second))
		e := w.run(life{version: v535}, func(*Node) {
			w.at(11*time.Second, func() { w.meddle("holder comes") })
			w.at(14*time.Second, func() { w.bind("vfio-pci") })
			w.at(17*time.Second, func() { w.bus = w.bus[:1]; w.users = nil })
		})
		if e.err != nil || !e.served || w.outcome() != absent || w.saved != nil || len(w.nodes) > 0 {
			t.Errorf("error %v, served %v, %s, status %+v, nodes %v", e.err, e.served, w.outcome(), w.saved, w.nodes)
		}
	})
}
