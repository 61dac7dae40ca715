package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/node/lock"
)

func TestMine(t *testing.T) {
	t.Parallel()
	run := t.TempDir()
	file, instance := statusFileIn(run), filepath.Join(run, "instance")
	check := func(name, want string) {
		t.Helper()
		err := Mine(run, instance)
		if want == "" && err == nil {
			return
		}
		if want == "" || !errors.Is(err, ErrNotReady) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
	save := func(st Status) {
		t.Helper()
		if err := file.save(st); err != nil {
			t.Fatal(err)
		}
	}
	check("no instance", "no driver-entrypoint runs in this container")
	if err := os.WriteFile(instance, []byte("mine\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	check("nothing written", "has not begun")
	st := Status{Schema: StatusSchema, Instance: "mine", State: Starting, Phase: "modules"}
	save(st)
	check("starting", "starting, phase modules")
	st.State, st.Phase, st.Reason = Degraded, "", "no GPU works"
	save(st)
	check("degraded", "degraded: no GPU works")
	st.State, st.Reason, st.Ready = Serving, "", true
	save(st)
	check("ready", "")
	st.State, st.Ready = Stopping, false
	save(st)
	check("stopping", "stopping")
	st.Instance, st.State, st.Ready = "another", Serving, true
	save(st)
	check("the status of another one that has gone", "has not begun")
	l, err := lock.Acquire(t.Context(), lock.Options{Path: Config{Run: run}.lockPath(), Legacy: Config{Run: run}.legacyLock(), Self: lock.Holder{PID: 4711, Pod: "other-pod"}})
	if err != nil {
		t.Fatal(err)
	}
	check("the lock is held by another one", "held by pid 4711, pod other-pod")
	if err := l.Release(); err != nil {
		t.Fatal(err)
	}
}

func TestAlive(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "instance")
	if err := Alive(file, noon); err == nil || !strings.Contains(err.Error(), "no driver-entrypoint runs") {
		t.Errorf("no file: %v", err)
	}
	if err := errors.Join(os.WriteFile(file, nil, 0o600), os.Chtimes(file, noon, noon)); err != nil {
		t.Fatal(err)
	}
	if err := Alive(file, noon.Add(time.Minute)); err != nil {
		t.Error(err)
	}
	if err := Alive(file, noon.Add(2*time.Minute)); err == nil || !strings.Contains(err.Error(), "no sign of life for 2m0s") {
		t.Errorf("silent: %v", err)
	}
}

// An instance gives signs of life while it waits for the lock.
func TestBeat(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.locked = true
		_, n := w.begin(life{version: v535})
		n.instanceFile = filepath.Join(w.dir, "instance")
		n.board.st.Instance = newInstance()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
		defer cancel()
		w.at(9*time.Minute, func() {
			if err := Alive(n.instanceFile, time.Now()); err != nil {
				t.Error(err)
			}
		})
		if err := n.Run(ctx, t.Context()); err != nil {
			t.Error(err)
		}
		if another := newInstance(); len(another) != 16 || another == n.board.st.Instance {
			t.Error("names of instances are not unique")
		}
		_, n = w.begin(life{version: v535})
		n.instanceFile = "/nonexistent/instance"
		if err := n.Run(ctx, t.Context()); err == nil {
			t.Error("no name of the instance, no error")
		}
	})
}

func TestWaitReady(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		run := memory(t)
		var said []string
		say := func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) }
		go func() {
			for i, st := range []Status{{State: Starting, Phase: "load"}, {State: Starting, Phase: "load"}, {State: Serving, Ready: true}} {
				time.Sleep(10 * time.Second)
				st.Schema, st.PID = StatusSchema, i
				if err := statusFileIn(run).save(st); err != nil {
					t.Error(err)
				}
			}
		}()
		if err := WaitReady(t.Context(), run, say); err != nil {
			t.Error(err)
		}
		if len(said) != 2 || !strings.Contains(said[0], "no driver container has run") || !strings.Contains(said[1], "phase load") {
			t.Errorf("said %q", said)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := WaitReady(ctx, run+"/none", say); !errors.Is(err, ErrNotReady) || !strings.Contains(err.Error(), "gave up waiting") {
			t.Errorf("for ever: %v", err)
		}
	})
}

func TestPeermem(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		i, n := w.begin(life{version: v535})
		st := Status{Schema: StatusSchema, State: Serving, Ready: true, Up: &Driver{Version: v535, Flavour: "proprietary"}}
		load := func() error { return n.LoadPeermem(t.Context(), time.Minute, true) }
		if err := load(); !errors.Is(err, ErrNotReady) {
			t.Errorf("no driver: %v", err)
		}
		save := func() {
			if err := statusFileIn(n.cfg.Run).save(st); err != nil {
				t.Fatal(err)
			}
		}
		save()
		if err := load(); !errors.Is(err, ErrNotReady) || !strings.Contains(err.Error(), "mlx5_core of the host") {
			t.Errorf("no Mellanox: %v", err)
		}
		w.modules["mlx5_core"] = kmod.Module{Name: "mlx5_core"}
		if err := load(); err == nil || !strings.Contains(err.Error(), "compiled with the driver's other modules") {
			t.Errorf("no modules: %v", err)
		}
		w.cache[v535] = true
		if err := load(); err == nil || !strings.Contains(err.Error(), "has no nvidia-peermem") {
			t.Errorf("not in the set: %v", err)
		}
		i.extra = []string{"nvidia-peermem"}
		w.modules["ipmi_msghandler"] = kmod.Module{Name: "ipmi_msghandler"}
		if err := w.insert("nvidia", v535, nil); err != nil {
			t.Fatal(err)
		}
		if err := load(); err != nil || w.modules["nvidia_peermem"].Version != v535 {
			t.Errorf("%v, %v", err, w.modules)
		}
		if err := load(); err != nil {
			t.Errorf("again: %v", err)
		}
		delete(w.modules, "nvidia_peermem")
		st.Up.Version = v470
		save()
		if err := load(); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "the node has driver "+v470) {
			t.Errorf("another driver: %v", err)
		}
	})
}

func TestPeermemMissing(t *testing.T) {
	t.Parallel()
	sys := t.TempDir()
	s := kmod.System{Sys: sys, Proc: t.TempDir()}
	if err := PeermemMissing(s); err != nil {
		t.Errorf("no Mellanox: %v", err)
	}
	if err := os.MkdirAll(filepath.Join(sys, "module", "mlx5_core"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := PeermemMissing(s); !errors.Is(err, ErrNotReady) {
		t.Errorf("missing: %v", err)
	}
	if err := os.MkdirAll(filepath.Join(sys, "module", "nvidia_peermem"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := PeermemMissing(s); err != nil {
		t.Errorf("there: %v", err)
	}
}
