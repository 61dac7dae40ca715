package node

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/node/config"
	"github.com/driver-container/driver-container/node/status"
)

// TestAnyLifeEndsWhole checks that any interleaving of signals, kills, failures, users and changes by others,
// over any number of instances of two versions, ends in an allowed state, and that afterwards the next
// undisturbed life serves and leaves nothing behind.
func TestAnyLifeEndsWhole(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir, number := memory(t), 0
		rapid.Check(struct{ rapid.TB }{t}, func(rt *rapid.T) { // without t's Deadline, which a bubble does not have
			number++
			w := newWorld(t, filepath.Join(dir, fmt.Sprint(number)))
			draw := func(name string) bool { return rapid.IntRange(0, 4).Draw(rt, name) == 0 }
			dirty := false
			if draw("stacked") {
				w.layers, dirty = []string{v470 + "-", v470 + "-"}, true
			}
			var tales []string
			for range rapid.IntRange(1, 4).Draw(rt, "lives") {
				w.calm()
				if draw("left") {
					left := drawLife(rt)
					w.omitted, w.refused, w.build = "", "", ""
					w.leave(left.version, left.source, "build="+left.image)
					tales = append(tales, fmt.Sprintf("left %s of %s, build %q", left.version, left.source, left.image))
					dirty = false
				}
				w.broken[v535], w.broken[v470] = draw("535 broken"), draw("470 broken")
				w.omitted = rapid.SampledFrom([]string{"", "", "nvidia-fs", "gdrdrv"}).Draw(rt, "omitted")
				w.refused = rapid.SampledFrom([]string{"", "", "nvidia_fs", "gdrdrv"}).Draw(rt, "refused")
				w.build = rapid.SampledFrom([]string{"", "", "b"}).Draw(rt, "build")
				w.sick, w.noDaemon, w.preflightBad = draw("sick"), draw("no daemon"), draw("preflight")
				l := drawLife(rt)
				if draw("used") {
					w.meddle("holder comes")
				}
				e := w.run(l)
				got := w.outcome()
				tales = append(tales, l.tale(e, got))
				if err := w.check(l, e, dirty); err != nil {
					rt.Fatalf("%v\n%s", err, strings.Join(tales, "\n"))
				}
				dirty = got != absent && got != whole
			}
			w.calm()
			l := life{version: v535}
			e := w.run(l)
			tales = append(tales, l.tale(e, w.outcome()))
			if err := w.check(l, e, false); err != nil || !e.served {
				rt.Fatalf("after all that, served %v, %v\n%s", e.served, err, strings.Join(tales, "\n"))
			}
		})
	})
}

// replacing are operations of a replacement, or "" for those of the number.
var replacing = []string{"", "", "", "", "delete nvidia", "delete nvidia_modeset", "unmount", "mount", "firmware", "insert nvidia", "insert nvidia_uvm", "keep"}

func drawLife(rt *rapid.T) life {
	l := life{
		version:  rapid.SampledFrom([]string{v470, v535}).Draw(rt, "version"),
		param:    rapid.SampledFrom([]string{"", "NVreg_A=1", "NVreg_A=0", "NVreg_Unknown=1"}).Draw(rt, "parameter"),
		uvmParam: rapid.SampledFrom([]string{"", "", "NVreg_A=1"}).Draw(rt, "parameter of nvidia_uvm"),
		onBusy:   rapid.SampledFrom([]string{config.BusyDetach, config.BusyFail, config.BusyWait}).Draw(rt, "on busy"),
		waits:    rapid.Bool().Draw(rt, "waits for a fit node"),
		direct:   rapid.Bool().Draw(rt, "GPUDirect"),
		source:   rapid.SampledFrom([]string{"", status.FromImage, status.FromMounted}).Draw(rt, "source"),
		image:    rapid.SampledFrom([]string{"", "b"}).Draw(rt, "image"),
	}
	fails := 0
	for range rapid.IntRange(0, 3).Draw(rt, "events") {
		e := event{at: rapid.IntRange(1, 110).Draw(rt, "at"), what: rapid.SampledFrom(happenings).Draw(rt, "what")}
		e.op = rapid.SampledFrom(replacing).Draw(rt, "operation")
		if e.op != "" {
			e.at = 0
		}
		if e.what == "fail" {
			fails++ // permanent failures have other tests: here a second attempt must be possible
		}
		if e.what != "fail" || fails == 1 {
			l.events = append(l.events, e)
		}
	}
	return l
}

// TestEveryOperation lets each operation of each kind of life fail once, coincide with a signal, or be the
// last one of its process.
func TestEveryOperation(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]func(w *world){
		"modules of the host":           func(w *world) { w.bring(t, v535) },
		"modules of the host, detached": func(w *world) { w.bring(t, v535); w.leave(v535) },
		"first start":                   func(*world) {},
		"second start":                  func(w *world) { w.run(life{version: v535}) },
		"adopt":                         func(w *world) { w.leave(v535) },
		"upgrade":                       func(w *world) { w.leave(v470) },
		"lacks both": func(w *world) {
			w.leave(v535)
			w.meddle("holder comes")
			w.lose("nvidia_modeset", "nvidia_uvm")
		},
		"lacks one, another differs": func(w *world) {
			w.leave(v535)
			w.modules["nvidia_uvm"] = kmod.Module{Name: "nvidia_uvm", Version: v535, SrcVersion: "OTHER", State: "live"}
			w.lose("nvidia_modeset")
		},
		"in use":                  func(w *world) { w.leave(v535); w.meddle("uvm holder comes") },
		"companions, first start": func(w *world) { w.direct = true },
		"companions, upgrade":     func(w *world) { w.direct = true; w.leave(v470) },
		"companions, other build": func(w *world) { w.direct = true; w.leave(v535); w.build = "b" },
		"companions, not any more": func(w *world) {
			w.direct = true
			w.leave(v535)
			w.direct = false
		},
		"new load fails": func(w *world) {
			w.leave(v470)
			w.broken[v535] = true
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				everyOperation(t, before)
			})
		})
	}
}

// leave runs an instance until it serves and kills it. The words are those of a story.
func (w *world) leave(version string, words ...string) {
	l := life{version: version, direct: w.direct}
	l.set(words...)
	w.run(l)
	l.asks = time.Hour
	w.run(l, func(n *Node) {
		k := n.Kernel.(*instance)
		w.at(7*time.Second, func() { k.before = func(string) error { k.die(); return nil } })
	})
}

func everyOperation(t *testing.T, before func(w *world)) {
	dir := memory(t)
	begin := newWorld(t, filepath.Join(dir, "before"))
	before(begin)
	start, known := begin.outcome(), map[string]bool{}
	for at, last := 1, 2; at <= last; at++ {
		for _, what := range []string{"fail", "signal", "kill", "holder comes"} {
			w := begin.clone(t)
			l := life{version: v535, direct: w.direct, asks: 6 * time.Second, events: []event{{at: at, what: what}}}
			e := w.run(l)
			last = max(last, min(len(e.ops), 150))
			got := w.outcome()
			if err := w.check(l, e, start != absent && start != whole); err != nil {
				t.Errorf("%v\n%s", err, l.tale(e, got))
			}
			w.calm()
			left := w.left()
			if known[left] { // another fault left the same state
				continue
			}
			known[left] = true
			l = life{version: v535, direct: w.direct}
			next := w.run(l)
			if err := w.check(l, next, false); err != nil || !next.served {
				t.Errorf("the next one after %s at operation %d (%s, %s): served %v, %v\n%s", what, at, e.ops[min(at, len(e.ops))-1], got, next.served, err, l.tale(next, w.outcome()))
			}
		}
		if t.Failed() {
			return
		}
	}
}
