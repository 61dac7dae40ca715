package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/kmod"
)

// outcome is where a node is when no instance runs.
type outcome string

// The allowed ones. A node may also be "half" after a SIGKILL, until the next instance has run.
const (
	absent outcome = "absent" // nothing loaded, nothing mounted, no device files
	whole  outcome = "whole"  // one version: all of its modules, exactly its root, device files
)

// outcome judges the world, not what the instance says of itself.
func (w *world) outcome() outcome {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.modules) == 0 && len(w.layers) == 0 && len(w.nodes) == 0 {
		return absent
	}
	version := w.modules["nvidia"].Version
	for _, name := range []string{"nvidia", "nvidia_uvm", "nvidia_modeset"} {
		if w.modules[name].Version != version || version == "" {
			return outcome(fmt.Sprintf("half: modules %v, roots %v, nodes %v", w.modules, w.layers, w.nodes))
		}
	}
	if !slices.Equal(w.layers, []string{version}) || len(w.nodes) == 0 {
		return outcome(fmt.Sprintf("half: %s loaded, roots %v, nodes %v", version, w.layers, w.nodes))
	}
	return whole
}

// life is one instance to run in a world.
type life struct {
	version string
	fault   string // fail, signal or kill at operation number at; "": none
	at      int
	stays   bool // serve until killed at the end
}

// end is how an instance ended.
type end struct {
	err    error
	served bool
	killed bool
	status Status
}

// run lets an instance live: it gets a signal once it serves, or after it has waited for a while.
func (w *world) run(t testing.TB, l life, edit func(*Config)) end {
	i := &instance{world: w, version: l.version}
	w.lives++
	name := fmt.Sprintf("instance-%d", w.lives)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	cfg := Defaults()
	cfg.Run, cfg.Termination, cfg.Grace = w.dir+"/nvidia", "", 5*time.Second
	if edit != nil {
		edit(&cfg)
	}
	hurry := make(chan struct{})
	n := &Node{
		cfg: cfg, info: driverinfo.Info{Driver: l.version, ID: l.version, Flavours: []string{driverinfo.Proprietary}}, release: "6.1.0-1-amd64",
		say: func(string, ...any) {}, now: time.Now, tick: 10 * time.Microsecond,
		kernel: i, roots: i, supplier: i, children: i, hardware: fakeHardware{i}, locker: i,
		markers: markers{run: cfg.Run, digest: "digest-" + l.version},
		board:   &board{path: cfg.statusPath(), now: time.Now, st: Status{Schema: StatusSchema, BootID: "boot", Instance: name}},
	}
	e := end{}
	ops, stopping := 0, false
	signal := func() {
		if !stopping {
			stopping = true
			cancel()
			return
		}
		select {
		case <-hurry:
		default:
			close(hurry)
		}
	}
	var frozen []byte
	i.hook = func(op string) error {
		ops++
		if st, _ := ReadStatus(cfg.Run); st.Instance == name && st.Ready {
			e.served = true
		}
		if ops == l.at {
			switch l.fault {
			case "fail":
				return fmt.Errorf("injected: %s", op)
			case "signal":
				signal()
			case "kill":
				frozen, _ = os.ReadFile(cfg.statusPath())
				i.kill()
				e.killed = true
				cancel()
				signal()
				signal()
				return errDead
			}
		}
		if e.served && op == "mounted" || ops > 90 { // the watch looks; or it waits for ever
			signal()
		}
		if ops > 130 {
			signal()
		}
		return nil
	}
	e.err = n.Run(ctx, hurry)
	if i.daemon { // they go with their container
		w.daemons = 0
	}
	if e.killed { // what the dead process went on to write did not happen
		if frozen == nil {
			_ = os.Remove(cfg.statusPath())
		} else {
			_ = os.WriteFile(cfg.statusPath(), frozen, 0o600)
		}
	}
	e.status, _ = ReadStatus(cfg.Run)
	return e
}

// Any interleaving of signals, kills, failures and users, over any number of instances of two versions, ends in an allowed state.
func TestAnyLifeEndsWhole(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t)
		dirty := false
		var told []string
		for range rapid.IntRange(1, 5).Draw(rt, "lives") {
			l := life{
				version: rapid.SampledFrom([]string{"470.256.02", "535.261.03"}).Draw(rt, "version"),
				fault:   rapid.SampledFrom([]string{"", "fail", "signal", "kill"}).Draw(rt, "fault"),
				at:      rapid.IntRange(1, 60).Draw(rt, "at"),
			}
			w.broken["535.261.03"] = rapid.IntRange(0, 5).Draw(rt, "broken") == 0
			w.users = nil
			if w.modules["nvidia"].Version != "" && rapid.Bool().Draw(rt, "used") {
				w.users = []kmod.Holder{{PID: 4711, Command: "python3", Files: []string{"/dev/nvidia0"}}}
			}
			w.ops = nil
			e := w.run(t, l, nil)
			told = append(told, fmt.Sprintf("%+v used %v: served %v, killed %v, error %v\n  %s", l, len(w.users) > 0, e.served, e.killed, e.err, strings.Join(w.ops, ", ")))
			got := w.outcome()
			switch {
			case e.killed:
				dirty = dirty || got != absent && got != whole
			case e.served || got == absent || got == whole:
				dirty = false
			}
			if !dirty && got != absent && got != whole {
				rt.Fatalf("%s\n%s", got, strings.Join(told, "\n"))
			}
			if w.locked && !e.killed {
				rt.Fatalf("the lock is still held\n%s", strings.Join(told, "\n"))
			}
			if e.err != nil && l.fault == "" && !dirty && !w.broken[l.version] {
				rt.Fatalf("an undisturbed life ended with %v\n%s", e.err, strings.Join(told, "\n"))
			}
		}
		w.users, w.broken = nil, map[string]bool{}
		e := w.run(t, life{version: "535.261.03"}, nil)
		if got := w.outcome(); e.err != nil || !e.served || got != absent {
			rt.Fatalf("after all that, an undisturbed life: served %v, error %v, %s\n%s", e.served, e.err, got, strings.Join(told, "\n"))
		}
	})
}

func TestFirstStart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.run(t, life{version: "535.261.03"}, nil)
	if e.err != nil || !e.served || w.outcome() != absent || !slices.Contains(w.ops, "compile") {
		t.Errorf("served %v, error %v, %s; operations %v", e.served, e.err, w.outcome(), w.ops)
	}
	if _, err := ReadStatus(w.dir + "/nvidia"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a status is left behind: %v", err)
	}
	w.ops = nil
	if e := w.run(t, life{version: "535.261.03"}, nil); e.err != nil || !e.served || slices.Contains(w.ops, "compile") {
		t.Errorf("second start: served %v, error %v; operations %v", e.served, e.err, w.ops)
	}
}

func TestInUseAtStop(t *testing.T) {
	t.Parallel()
	for policy, want := range map[string]error{BusyDetach: nil, BusyFail: ErrLeft} {
		w := newWorld(t)
		w.users = []kmod.Holder{{PID: 4711, Command: "python3", Files: []string{"/dev/nvidiactl"}}}
		e := w.run(t, life{version: "535.261.03"}, func(c *Config) { c.OnBusy = policy })
		if !errors.Is(e.err, want) || w.outcome() != whole || e.status.State != Detached || len(e.status.Holders) != 1 {
			t.Errorf("%s: error %v, %s, status %+v", policy, e.err, w.outcome(), e.status)
		}
		if !strings.Contains(e.status.Reason, "pid 4711") {
			t.Errorf("%s: the holder is not named: %s", policy, e.status.Reason)
		}
		w.users, w.ops = nil, nil
		e = w.run(t, life{version: "535.261.03"}, nil)
		if e.err != nil || !e.served || w.outcome() != absent || slices.Contains(w.ops, "insert nvidia") {
			t.Errorf("%s: the successor: served %v, error %v, %s; operations %v", policy, e.served, e.err, w.outcome(), w.ops)
		}
	}
}

func TestUpgradeThatFailsPutsTheOldOneBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.run(t, life{version: "470.256.02", fault: "kill", at: 60}, nil) // served and killed: loaded, mounted
	if w.outcome() != whole {
		t.Skipf("killed too early: %s", w.outcome())
	}
	w.broken["535.261.03"] = true
	e := w.run(t, life{version: "535.261.03"}, nil)
	var rolled *RollbackError
	if !errors.As(e.err, &rolled) || rolled.Restore != nil || w.outcome() != whole || w.modules["nvidia"].Version != "470.256.02" {
		t.Errorf("error %v, %s", e.err, w.outcome())
	}
	if e.status.State != Restored || e.status.Up == nil || e.status.Up.Version != "470.256.02" {
		t.Errorf("status %+v", e.status)
	}
	var refused *kmod.RefusedError
	if !errors.As(e.err, &refused) {
		t.Errorf("the reason is lost: %v", e.err)
	}
}

func TestGPUThatDoesNotComeUp(t *testing.T) {
	t.Parallel()
	for policy, ready := range map[string]bool{GPURequire: false, GPUWarn: true} {
		w := newWorld(t)
		w.sick = true
		var seen Status
		e := w.run(t, life{version: "535.261.03", fault: "signal", at: 45}, func(c *Config) { c.GPUInit = policy })
		seen = e.status
		if e.err != nil || e.served != ready || w.outcome() != absent {
			t.Errorf("%s: served %v, error %v, %s; %+v; %v", policy, e.served, e.err, w.outcome(), seen, w.ops)
		}
	}
}

func TestConfigCheck(t *testing.T) {
	t.Parallel()
	if err := Defaults().Check(); err != nil {
		t.Error(err)
	}
	bad := Defaults()
	bad.ModuleType, bad.OnBusy, bad.GPUInit, bad.MaxThreads, bad.Grace, bad.Run = "closed", "", "x", -1, 0, "run"
	err := bad.Check()
	for _, want := range []string{"KERNEL_MODULE_TYPE", "--on-busy", "--gpu-init", "--max-threads", "--grace", "--run-dir"} {
		if err == nil || !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is not in %v", want, err)
		}
	}
}
