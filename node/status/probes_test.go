package status

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/logtest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/node/lock"
)

func TestMine(t *testing.T) {
	t.Parallel()
	run := t.TempDir()
	file, instance := Folder(run), filepath.Join(run, "instance")
	check := func(name, want string) {
		t.Helper()
		err := Mine(run, instance, kmod.System{})
		if want == "" && err == nil {
			return
		}
		if want == "" || !errors.Is(err, ErrNotReady) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
	save := func(st Snapshot) {
		t.Helper()
		require.NoError(t, file.Save(st))
	}
	check("no instance", "no driver-entrypoint runs in this container")
	require.NoError(t, os.WriteFile(instance, []byte("mine\n"), 0o600))
	check("nothing written", "has not begun")
	st := Snapshot{Schema: Schema, Instance: "mine", PID: 4711, State: Starting, Phase: "modules"}
	save(st)
	check("starting, but nobody holds the lock", "was killed")
	l := acquire(t, run, 4711)
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
	unlock(t, l)
	st.Instance, st.State, st.Ready = "another", Serving, true
	save(st)
	check("the status of another one that has gone", "has not begun")
	l = acquire(t, run, 4711)
	check("the lock is held by another one", "held by pid 4711, pod other-pod")
	unlock(t, l)
}

// acquire takes the node's lock as an instance with this process id.
func acquire(t *testing.T, run string, pid int) *lock.Lock {
	t.Helper()
	l := require.Value(lock.Acquire(t.Context(), lock.Options{Run: run, Self: lock.Holder{PID: pid, Pod: "other-pod"}}))(t)
	return l
}

func unlock(t *testing.T, l *lock.Lock) {
	t.Helper()
	require.NoError(t, l.Release())
}

func TestAlive(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "instance")
	assert.ErrorContainsf(t, Alive(file, noon), "no driver-entrypoint runs", "no file")
	require.NoError(t, errors.Join(os.WriteFile(file, nil, 0o600), os.Chtimes(file, noon, noon)))
	assert.NoError(t, Alive(file, noon.Add(time.Minute)))
	assert.ErrorContainsf(t, Alive(file, noon.Add(2*time.Minute)), "no sign of life for 2m0s", "silent")
}

func TestWaitReady(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		run := t.TempDir()
		var log logtest.Log
		defer unlock(t, acquire(t, run, 2))
		go func() {
			for _, st := range []Snapshot{{State: Starting, Phase: "load"}, {State: Starting, Phase: "load"}, {State: Serving, Ready: true}} {
				time.Sleep(10 * time.Second)
				st.Schema, st.PID = Schema, 2
				assert.NoError(t, Folder(run).Save(st))
			}
		}()
		assert.NoError(t, WaitReady(t.Context(), run, kmod.System{}, log.Logger()))
		if said := log.Lines(); len(said) != 2 || !strings.Contains(said[0], "holds the node's lock has written no status yet: pid 2") || !strings.Contains(said[1], "phase load") {
			t.Errorf("said %q", said)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := WaitReady(ctx, run+"/none", kmod.System{}, log.Logger()); !errors.Is(err, ErrNotReady) || !strings.Contains(err.Error(), "gave up waiting") {
			t.Errorf("for ever: %v", err)
		}
	})
}

func TestPeermemMissing(t *testing.T) {
	t.Parallel()
	sys := t.TempDir()
	s := kmod.System{Sys: sys, Proc: t.TempDir()}
	assert.NoErrorf(t, PeermemMissing(s), "no Mellanox")
	require.NoError(t, os.MkdirAll(filepath.Join(sys, "module", "mlx5_core"), 0o755))
	assert.ErrorIsf(t, PeermemMissing(s), ErrNotReady, "missing")
	require.NoError(t, os.MkdirAll(filepath.Join(sys, "module", "nvidia_peermem"), 0o755))
	assert.NoErrorf(t, PeermemMissing(s), "there")
}
