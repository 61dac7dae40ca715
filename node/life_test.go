package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/node/devices"
)

const (
	v470 = "470.256.02"
	v535 = "535.261.03"
)

// life is one instance to run in a world. It gets a first signal after asks, a second one half a minute later.
type life struct {
	version string
	param   string // of the module nvidia
	onBusy  string // default BusyDetach
	asks    time.Duration
	events  []event
}

// event happens just before the operation with this number, counted from 1.
type event struct {
	at   int
	what string
}

// What may happen. The first three are the instance's own troubles, the others are somebody else's doing.
var happenings = []string{"fail", "signal", "kill", "holder comes", "uvm holder comes", "holders go", "gdrdrv comes",
	"mounted over", "unmounted", "uvm unloaded", "lock file removed", "lock file taken", "daemon dies"}

// happen does an event to an instance. Called with the world's lock.
func (i *instance) happen(what, op string, signal func()) error {
	switch what {
	case "fail":
		i.disturbed = true
		if strings.HasPrefix(op, "delete ipmi") { // said, and no reason to stay: it harms nobody
			i.leaks = append(i.leaks, "ipmi_msghandler", "ipmi_devintf")
		}
		return fmt.Errorf("%w: %s", errInjected, op)
	case "signal":
		signal()
	case "kill":
		i.die()
	case "holders go":
		i.users = nil
	default:
		if i.meddle(what) {
			i.disturbed, i.meddled = true, true
		}
	}
	return nil
}

// meddle is what others do on the node, where they can. It says whether the driver is not whole any more.
func (w *world) meddle(what string) bool {
	_, loaded := w.modules["nvidia"]
	switch {
	case what == "holder comes" && loaded && len(w.nodes) > 0:
		w.users = append(w.users, kmod.Holder{PID: 4711, Command: "python3", Files: []string{"/dev/nvidiactl"}})
	case what == "uvm holder comes" && w.modules["nvidia_uvm"].Name != "" && len(w.nodes) > 0:
		w.users = append(w.users, kmod.Holder{PID: 4712, Command: "python3", Files: []string{"/dev/nvidiactl", "/dev/nvidia-uvm"}})
	case what == "gdrdrv comes" && loaded:
		_ = w.insert("gdrdrv", "2.4", nil)
	case what == "mounted over":
		w.layers = append(w.layers, "foreign")
		return true
	case what == "unmounted":
		w.layers = nil
		return true
	case what == "uvm unloaded":
		return w.delete("nvidia_uvm") == nil
	case what == "lock file removed":
		w.lockFile = "gone"
	case what == "lock file taken":
		w.lockFile = "stolen"
	case what == "daemon dies":
		w.daemonDown, w.daemons = true, 0
		return true
	}
	return false
}

// end is how an instance ended.
type end struct {
	err                       error
	began                     bool // it had the lock
	took                      time.Duration
	served, killed, disturbed bool
	meddled                   bool
	status                    Status // the zero one when there is none
	ops                       []string
}

// begin makes the instance of a life.
func (w *world) begin(l life) (*instance, *Node) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lives++
	i := &instance{world: w, life: l, number: w.lives}
	cfg := Defaults()
	cfg.Run, cfg.Termination, cfg.Grace = w.dir+"/nvidia", "", 20*time.Second
	if l.onBusy != "" {
		cfg.OnBusy = l.onBusy
	}
	say := func(string, ...any) {}
	return i, &Node{
		cfg: cfg, info: driverinfo.Info{Driver: l.version, ID: l.version, Flavours: []string{driverinfo.Proprietary}}, release: "6.1.0-1-amd64",
		say: say, now: time.Now, rest: func() {}, kernel: i, roots: i, supplier: i, children: i, hardware: fakeHardware{i}, locker: i,
		markers: markers{run: cfg.Run, digest: "digest-" + l.version},
		board:   &board{shelf: i, say: say, now: time.Now, st: Status{Schema: StatusSchema, BootID: "boot", Instance: fmt.Sprint(i.number)}},
	}
}

// run lets an instance live to its end. It must be called in a bubble.
func (w *world) run(l life, edit ...func(*Node)) end {
	time.Sleep(untilNext(time.Now())) // the number of looks does not depend on when it began
	begin := time.Now()
	i, n := w.begin(l)
	for _, e := range edit {
		e(n)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	hurry, signals := make(chan struct{}), 0
	signal := func() {
		switch signals++; signals {
		case 1:
			cancel()
		case 2:
			close(hurry)
		}
	}
	if l.asks == 0 {
		l.asks = 12 * time.Second
	}
	lock := func(f func()) func() { return func() { i.mu.Lock(); defer i.mu.Unlock(); f() } }
	for _, after := range []time.Duration{l.asks, l.asks + 30*time.Second} {
		defer time.AfterFunc(after, lock(signal)).Stop()
	}
	first := len(w.ops)
	i.before = func(op string) error {
		var err error
		for _, e := range l.events {
			if e.at == len(w.ops)-first {
				err = errors.Join(err, i.happen(e.what, op, signal))
			}
		}
		return err
	}
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done) // also when it is killed
		err = n.Run(ctx, hurry)
	}()
	<-done
	i.over()
	e := end{err: err, took: time.Since(begin), began: n.lock != nil, served: i.served, killed: i.killed, disturbed: i.disturbed, meddled: i.meddled, ops: slices.Clone(w.ops[first:])}
	if w.saved != nil {
		e.status = *w.saved
	}
	return e
}

// tale is what happened in a world, for the message of a failure.
func (l life) tale(e end, got outcome) string {
	return fmt.Sprintf("%+v: served %v, killed %v, %s, state %q, error %v\n  %s", l, e.served, e.killed, got, e.status.State, e.err, strings.Join(e.ops, ", "))
}

// check judges how a life ended. dirty says that a killed predecessor or somebody else had left half a state when it began.
func (w *world) check(l life, e end, dirty bool) error {
	got := w.outcome()
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	for _, text := range w.wrong {
		bad("%s", text)
	}
	if e.killed {
		return errors.Join(errs...)
	}
	tolerated := dirty && !e.served || e.meddled
	if got != absent && got != whole && !tolerated {
		bad("it ended %s", got)
	}
	if l.plain() && !dirty && len(w.users) == 0 && !w.broken[l.version] && !w.preflightBad {
		if e.err != nil || got != absent {
			bad("an undisturbed life ended with %v, %s", e.err, got)
		}
	}
	if e.err == nil && got == whole && e.status.State != Detached && !e.disturbed {
		bad("left in place, state %q", e.status.State)
	}
	if up := e.status.Up; got == whole && !e.disturbed && !dirty && (up == nil || up.Version != w.modules["nvidia"].Version) {
		bad("whole, the status has %v", up)
	}
	if e.status.State == Starting || e.status.State == Waiting || e.status.State == Stopping || e.status.Ready {
		if !e.disturbed { // the last word could not be written
			bad("no process, state %s", e.status.State)
		}
	}
	if !e.began {
		return errors.Join(errs...) // what a killed predecessor says of itself
	}
	if text, err := os.ReadFile(filepath.Join(w.dir, "nvidia", daemonsMarker)); err == nil && string(text) != "NotReady\n" {
		bad("no process, the marker says %s", text)
	}
	return errors.Join(errs...)
}

// plain: nothing happens to this life that must make it fail.
func (l life) plain() bool {
	return len(l.events) == 0 && l.param != "NVreg_Unknown=1"
}

// calm removes from the world what is in the way of a driver, but nothing that an instance has to clear away.
func (w *world) calm() {
	w.users, w.broken, w.noDaemon, w.daemonDown, w.sick, w.preflightBad = nil, map[string]bool{}, false, false, false, false
	delete(w.modules, "gdrdrv")
}

// Any interleaving of signals, kills, failures, users and meddlers, over any number of instances of two versions, ends in an allowed
// state; and whatever happened, the next undisturbed life serves and leaves nothing.
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
				w.layers, dirty = []string{v470, v470}, true
			}
			var told []string
			for range rapid.IntRange(1, 4).Draw(rt, "lives") {
				w.calm()
				w.broken[v535], w.broken[v470] = draw("535 broken"), draw("470 broken")
				w.sick, w.noDaemon, w.preflightBad = draw("sick"), draw("no daemon"), draw("preflight")
				l := drawLife(rt)
				if draw("used") {
					w.meddle("holder comes")
				}
				e := w.run(l)
				got := w.outcome()
				told = append(told, l.tale(e, got))
				if err := w.check(l, e, dirty); err != nil {
					rt.Fatalf("%v\n%s", err, strings.Join(told, "\n"))
				}
				dirty = got != absent && got != whole
			}
			w.calm()
			l := life{version: v535}
			e := w.run(l)
			told = append(told, l.tale(e, w.outcome()))
			if err := w.check(l, e, false); err != nil || !e.served {
				rt.Fatalf("after all that, served %v, %v\n%s", e.served, err, strings.Join(told, "\n"))
			}
		})
	})
}

func drawLife(rt *rapid.T) life {
	l := life{
		version: rapid.SampledFrom([]string{v470, v535}).Draw(rt, "version"),
		param:   rapid.SampledFrom([]string{"", "NVreg_A=1", "NVreg_A=0", "NVreg_Unknown=1"}).Draw(rt, "parameter"),
		onBusy:  rapid.SampledFrom([]string{BusyDetach, BusyFail, BusyWait}).Draw(rt, "on busy"),
	}
	fails := 0
	for range rapid.IntRange(0, 3).Draw(rt, "events") {
		e := event{rapid.IntRange(1, 110).Draw(rt, "at"), rapid.SampledFrom(happenings).Draw(rt, "what")}
		if e.what == "fail" {
			fails++ // what fails for good is somebody else's test: a second try must be possible
		}
		if e.what != "fail" || fails == 1 {
			l.events = append(l.events, e)
		}
	}
	return l
}

// Every operation of every kind of life fails once, is the moment of a signal, or the last one of its process.
func TestEveryOperation(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]func(w *world){
		"first start":  func(*world) {},
		"second start": func(w *world) { w.run(life{version: v535}) },
		"adopt":        func(w *world) { w.leave(v535) },
		"upgrade":      func(w *world) { w.leave(v470) },
		"in use":       func(w *world) { w.leave(v535); w.meddle("uvm holder comes") },
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

// leave lets an instance serve and be killed.
func (w *world) leave(version string) {
	w.run(life{version: version})
	w.run(life{version: version, asks: time.Hour}, func(n *Node) {
		k := n.kernel.(*instance)
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
			l := life{version: v535, asks: 6 * time.Second, events: []event{{at, what}}}
			e := w.run(l)
			last = max(last, min(len(e.ops), 150))
			got := w.outcome()
			if err := w.check(l, e, start != absent && start != whole); err != nil {
				t.Errorf("%v\n%s", err, l.tale(e, got))
			}
			w.calm()
			if left := w.left(); known[left] { // another fault left the same
				continue
			} else {
				known[left] = true
			}
			l = life{version: v535}
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

// at does something to the world after a while.
func (w *world) at(after time.Duration, f func()) {
	time.AfterFunc(after, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		f()
	})
}

func bubble(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { f(t, newWorld(t, memory(t))) })
}

// Scenarios 1 to 3 of the lab.
func TestFirstAndSecondStart(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		e := w.run(life{version: v535})
		if e.err != nil || !e.served || w.outcome() != absent || !slices.Contains(e.ops, "compile") || w.saved != nil {
			t.Errorf("served %v, error %v, %s, status %v; %v", e.served, e.err, w.outcome(), w.saved, e.ops)
		}
		e = w.run(life{version: v535})
		if e.err != nil || !e.served || slices.Contains(e.ops, "compile") {
			t.Errorf("second start: served %v, error %v; %v", e.served, e.err, e.ops)
		}
	})
}

// Scenario 4: the second instance waits and takes over; stopped while it waits it touches nothing.
func TestTwoInstances(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		first, n1 := w.begin(life{version: v535})
		ctx, stop := context.WithCancel(context.Background())
		ended := make(chan error)
		go func() { ended <- n1.Run(ctx, nil) }()
		time.Sleep(3 * time.Second)
		i, waiting := w.begin(life{version: v535})
		patience, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		saved := *w.saved
		if err := waiting.Run(patience, nil); err != nil || !first.served || w.saved.Instance != saved.Instance || !w.saved.Updated.Equal(saved.Updated) || i.holds {
			t.Errorf("stopped while waiting: %v, status %+v", err, w.saved)
		}
		second := make(chan end)
		go func() { second <- w.run(life{version: v535, asks: time.Minute}) }()
		time.Sleep(5 * time.Second)
		stop()
		if err := <-ended; err != nil {
			t.Errorf("the first one: %v", err)
		}
		first.over()
		if e := <-second; e.err != nil || !e.served || w.outcome() != absent {
			t.Errorf("the second one: served %v, error %v, %s", e.served, e.err, w.outcome())
		}
		if len(w.wrong) > 0 {
			t.Error(w.wrong)
		}
	})
}

// Scenario 5: what two killed ones left is adopted, and one mount remains.
func TestKilledTwice(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.leave(v535)
		w.layers = append(w.layers, v535)
		e := w.run(life{version: v535})
		if e.err != nil || !e.served || slices.Contains(e.ops, "insert nvidia") || w.outcome() != absent {
			t.Errorf("served %v, error %v, %s; %v", e.served, e.err, w.outcome(), e.ops)
		}
	})
}

// Scenario 6.
func TestInUseAtStop(t *testing.T) {
	for policy, want := range map[string]error{BusyDetach: nil, BusyFail: ErrLeft, BusyWait: nil} {
		t.Run(policy, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				e := w.run(life{version: v535, onBusy: policy}, func(*Node) {
					w.at(10*time.Second, func() { w.meddle("holder comes") })
				})
				if !errors.Is(e.err, want) || w.outcome() != whole || e.status.State != Detached || len(e.status.Holders) != 1 {
					t.Errorf("error %v, %s, status %+v", e.err, w.outcome(), e.status)
				}
				took, most := e.took-12*time.Second, 16*time.Second // grace 20 s less its margin of 5 s
				if policy == BusyWait {
					most = 31 * time.Second // the second signal
				}
				if took > most || took < most-2*time.Second {
					t.Errorf("the stop took %s, want %s", took, most)
				}
				if !strings.Contains(e.status.Reason, "pid 4711") {
					t.Errorf("the holder is not named: %s", e.status.Reason)
				}
				w.calm()
				e = w.run(life{version: v535})
				if e.err != nil || !e.served || w.outcome() != absent || slices.Contains(e.ops, "insert nvidia") {
					t.Errorf("the successor: served %v, error %v, %s; operations %v", e.served, e.err, w.outcome(), e.ops)
				}
			})
		})
	}
}

// A holder that comes between the check and the unload: what was unloaded is loaded again, or the driver is gone.
func TestHolderComesDuringUnload(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.cache[v535] = true
		first := w.run(life{version: v535})
		at := slices.Index(first.ops, "delete nvidia_uvm") + 1 // nvidia_modeset has gone
		w.run(life{version: v470})
		e := w.run(life{version: v535, events: []event{{at, "holder comes"}}})
		if w.outcome() != whole || e.status.State != Detached || !slices.Contains(e.ops, "delete nvidia_modeset") {
			t.Errorf("error %v, %s, state %s; %v", e.err, w.outcome(), e.status.State, e.ops)
		}
	})
}

// Somebody else's module on top is unloaded with the driver; told when it is not there any more after a refusal.
func TestForeignModuleOnTop(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		e := w.run(life{version: v535}, func(*Node) {
			w.at(6*time.Second, func() { w.meddle("gdrdrv comes") })
		})
		if e.err != nil || w.outcome() != absent || w.modules["gdrdrv"].Name != "" {
			t.Errorf("error %v, %s, modules %v", e.err, w.outcome(), w.modules)
		}
	})
}

// Scenario 7: the new one fails, the old one is back; while it is in use the new one waits.
func TestUpgrade(t *testing.T) {
	t.Run("fails", func(t *testing.T) {
		bubble(t, func(t *testing.T, w *world) {
			w.leave(v470)
			w.broken[v535] = true
			e := w.run(life{version: v535})
			var rolled *RollbackError
			var refused *kmod.RefusedError
			if !errors.As(e.err, &rolled) || rolled.Restore != nil || !errors.As(e.err, &refused) || !errors.Is(e.err, unix.ENODEV) {
				t.Errorf("error %v", e.err)
			}
			if w.outcome() != whole || w.modules["nvidia"].Version != v470 || e.status.State != Restored || e.status.Up == nil || e.status.Up.Version != v470 {
				t.Errorf("%s, status %+v", w.outcome(), e.status)
			}
		})
	})
	t.Run("neither loads", func(t *testing.T) {
		bubble(t, func(t *testing.T, w *world) {
			w.leave(v470)
			w.broken[v535], w.broken[v470] = true, true
			e := w.run(life{version: v535})
			var rolled *RollbackError
			if !errors.As(e.err, &rolled) || rolled.Restore == nil || w.outcome() != absent || e.status.State != Failed {
				t.Errorf("error %v, %s, state %s", e.err, w.outcome(), e.status.State)
			}
		})
	})
	t.Run("busy", func(t *testing.T) {
		bubble(t, func(t *testing.T, w *world) {
			w.leave(v470)
			w.meddle("holder comes")
			var seen Status
			e := w.run(life{version: v535, asks: time.Minute}, func(*Node) {
				w.at(20*time.Second, func() { seen, w.users = *w.saved, nil })
			})
			if seen.State != Waiting || seen.Ready || len(seen.Holders) != 1 || !strings.Contains(seen.Reason, v470) || seen.Up == nil || seen.Up.Version != v470 {
				t.Errorf("while it waits: %+v", seen)
			}
			if e.err != nil || !e.served || w.outcome() != absent {
				t.Errorf("error %v, served %v, %s", e.err, e.served, w.outcome())
			}
			w.leave(v470)
			w.meddle("holder comes")
			e = w.run(life{version: v535})
			if e.err != nil || e.served || w.outcome() != whole || w.modules["nvidia"].Version != v470 || e.status.State != Detached {
				t.Errorf("stopped while waiting: error %v, served %v, %s, %+v", e.err, e.served, w.outcome(), e.status)
			}
		})
	})
}

// Scenario 8: a GPU that never comes up.
func TestGPUThatDoesNotComeUp(t *testing.T) {
	for policy, ready := range map[string]bool{GPURequire: false, GPUWarn: true} {
		t.Run(policy, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				w.sick = true
				var seen Status
				e := w.run(life{version: v535}, func(n *Node) {
					n.cfg.GPUInit = policy
					w.at(8*time.Second, func() { seen = *w.saved })
				})
				if e.err != nil || e.served != ready || w.outcome() != absent {
					t.Errorf("served %v, error %v, %s", e.served, e.err, w.outcome())
				}
				text := seen.Reason + strings.Join(seen.Warnings, " ")
				if len(seen.GPUs) != 1 || seen.GPUs[0].Works || !strings.Contains(text, "RmInitAdapter") || seen.Ready != ready {
					t.Errorf("status %+v", seen)
				}
			})
		})
	}
	t.Run("comes back", func(t *testing.T) {
		bubble(t, func(t *testing.T, w *world) {
			w.sick = true
			e := w.run(life{version: v535, asks: 2 * time.Minute}, func(*Node) {
				w.at(20*time.Second, func() { w.sick = false })
			})
			if !e.served || e.err != nil {
				t.Errorf("served %v, error %v", e.served, e.err)
			}
		})
	})
}

// Scenario 11: the disk is full when the modules are kept; a signal ends a compile.
func TestCompileTroubles(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		first := w.run(life{version: v535})
		delete(w.cache, v535)
		keep := slices.Index(first.ops, "keep") + 1
		e := w.run(life{version: v535, events: []event{{keep, "fail"}}})
		if !e.served || e.err != nil || w.outcome() != absent {
			t.Errorf("disk full: served %v, error %v, %s", e.served, e.err, w.outcome())
		}
		delete(w.cache, v535)
		e = w.run(life{version: v470, asks: 500 * time.Millisecond})
		if e.err != nil || w.outcome() != absent || e.took > 2*time.Second || e.served {
			t.Errorf("stopped in the compile: error %v, %s, after %s", e.err, w.outcome(), e.took)
		}
	})
}

// Scenario 12.
func TestParameters(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.cache[v535] = true
		e := w.run(life{version: v535, param: "NVreg_Unknown=1"})
		if !errors.Is(e.err, ErrConfig) || slices.Contains(e.ops, "insert nvidia") || w.outcome() != absent {
			t.Errorf("error %v, %v", e.err, e.ops)
		}
		w.leave(v535)
		e = w.run(life{version: v535, param: "NVreg_A=1"})
		if e.err != nil || !e.served || !slices.Contains(e.ops, "insert nvidia") || w.params["nvidia"][0] != "NVreg_A=1" {
			t.Errorf("loaded with other parameters: served %v, error %v, %v", e.served, e.err, e.ops)
		}
	})
}

// Scenario 13.
func TestDaemons(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.noDaemon = true
		var seen Status
		e := w.run(life{version: v535, asks: 2 * time.Minute}, func(*Node) {
			w.at(20*time.Second, func() { seen, w.noDaemon = *w.saved, false })
			w.at(80*time.Second, func() { w.meddle("daemon dies") })
		})
		if seen.State != Degraded || !strings.Contains(seen.Reason, "nvidia-persistenced ended at once") {
			t.Errorf("a daemon that does not start: %+v", seen)
		}
		if e.err != nil || !e.served || w.outcome() != absent {
			t.Errorf("served %v, error %v, %s", e.served, e.err, w.outcome())
		}
	})
}

// What others do to a driver that serves is said, is never repaired, and does not keep the stop from leaving nothing.
func TestMeddlers(t *testing.T) {
	for what, want := range map[string]string{
		"mounted over": "mounted over the driver root", "unmounted": "was unmounted by somebody else", "uvm unloaded": "nvidia_uvm was unloaded by somebody else",
		"daemon dies": "it ended with code 1", "lock file removed": "", "lock file taken": "cannot be made anew",
	} {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				var seen Status
				e := w.run(life{version: v535, asks: time.Minute}, func(*Node) {
					w.at(11*time.Second, func() { w.meddle(what) })
					w.at(18*time.Second, func() { seen = *w.saved })
				})
				text := seen.Reason + strings.Join(seen.Warnings, " ")
				lockFile := strings.HasPrefix(what, "lock")
				if !strings.Contains(text, want) || seen.Ready != lockFile || e.err != nil {
					t.Errorf("ready %v, %q, error %v", seen.Ready, text, e.err)
				}
				if got := w.outcome(); got != absent {
					t.Error(got)
				}
			})
		})
	}
}

// `unload` takes down what an instance left.
func TestUnload(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		for _, prepare := range []func(){func() {}, func() { w.leave(v535) }, func() { w.leave(v470) }, func() { w.layers = []string{v470} },
			func() {
				w.nodes = []devices.Node{{Path: "/dev/nvidia0", Made: true}}
				w.saved.Up = &Driver{Nodes: w.nodes}
			}} {
			prepare()
			i, n := w.begin(life{version: v535})
			if err := n.Unload(context.Background(), nil); err != nil || w.outcome() != absent {
				t.Errorf("error %v, %s", err, w.outcome())
			}
			i.over()
			w.saved = &Status{Schema: StatusSchema, BootID: "boot", State: Detached, Reason: "x"}
		}
		w.saved = nil
		w.leave(v535)
		w.meddle("holder comes")
		i, n := w.begin(life{version: v535, onBusy: BusyFail})
		if err := n.Unload(context.Background(), nil); !errors.Is(err, ErrLeft) || w.outcome() != whole {
			t.Errorf("in use: error %v, %s", err, w.outcome())
		}
		i.over()
	})
}
