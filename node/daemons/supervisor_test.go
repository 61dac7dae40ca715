package daemons

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/logtest"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

func ready(s State) bool { return s.Running && s.Ready }

func TestStartAndStop(t *testing.T) {
	t.Parallel()
	f := in(t, "b.pid", "socket", "late.pid")
	forking := spec("forking", "fork", f[0])
	forking.Socket = f[1]
	forking.Env = append(forking.Env, "SOCKET="+f[1])
	var l logtest.Log
	s := started(t, &l, quickly, spec("plain", "run"), forking, spec("late", "late", f[2]))
	states := s.States()
	for i, want := range []string{"plain", "forking", "late"} {
		if !ready(states[i]) || states[i].Name != want || states[i].Reason != "" || time.Since(states[i].Since) > time.Minute || !alive(states[i].PID) {
			t.Errorf("%+v, want %s", states[i], want)
		}
	}
	pids := s.PIDs()
	assert.Same(t, []int{pidOf(t, f[0]), pidOf(t, f[2])}, pids[1:])
	for range 2 {
		assert.NoError(t, s.Stop(t.Context()))
	}
	assert.Equalf(t, false, slices.ContainsFunc(pids, alive), "still alive among %v", pids)
	for _, st := range s.States() {
		if st.Ready || st.Running || st.PID != 0 || st.Reason != "stopped" {
			t.Errorf("after stop: %+v", st)
		}
	}
	assert.Equalf(t, 0, len(s.PIDs()), "PIDs after stop")
	assert.Contains(t, l.String(), "daemon ready daemon=plain pid=")
}

// A daemon that is killed five times is up again each time; the pauses grow.
func TestKilledFiveTimes(t *testing.T) {
	t.Parallel()
	f := in(t, "a.pid")
	var l logtest.Log
	tm := quickly
	tm.longest = 80 * time.Millisecond
	s := started(t, &l, tm, spec("plain", "run"), spec("forking", "fork", f[0]))
	for i := 1; i <= 5; i++ {
		before := s.States()
		killed := []int{before[0].PID, before[1].PID}
		for _, pid := range killed {
			require.NoError(t, unix.Kill(pid, unix.SIGKILL))
		}
		after := eventually(t, s, "up again", func(st []State) bool {
			return !slices.ContainsFunc(st, func(s State) bool { return !ready(s) || s.Restarts != i })
		})
		for d := range after {
			if after[d].PID == before[d].PID || alive(killed[d]) || alive(before[d].PID) || !alive(after[d].PID) {
				t.Errorf("kill %d: %+v", i, after[d])
			}
		}
	}
	for _, want := range []string{logtest.DaemonDown + "plain pause=20ms: process", "signal: killed: hello\n", "pause=80ms", logtest.DaemonDown + "forking pause=20ms: process"} {
		assert.Contains(t, l.String(), want)
	}
	assert.Equalf(t, false, strings.Contains(l.String(), "pause=160ms"), "longer than the longest: %s", &l)
}

// A stable daemon begins with the short pause again.
func TestStable(t *testing.T) {
	t.Parallel()
	var l logtest.Log
	tm := quickly
	tm.stable, tm.running = time.Nanosecond, time.Millisecond
	s := started(t, &l, tm, spec("plain", "run"))
	for i := range 4 {
		states := eventually(t, s, "up", func(st []State) bool { return st[0].Restarts == i && ready(st[0]) })
		require.NoError(t, unix.Kill(states[0].PID, unix.SIGKILL))
	}
	eventually(t, s, "up again", func(st []State) bool { return st[0].Restarts == 4 })
	assert.Equalf(t, 4, strings.Count(l.String(), "pause=20ms"), "%s", &l)
}

func TestNeverStarts(t *testing.T) {
	t.Parallel()
	missing := spec("d", "run")
	missing.Path = "/nonexistent/daemon"
	badSocket := spec("d", "run")
	badSocket.StartWait, badSocket.Socket = 300*time.Millisecond, "/nonexistent/socket"
	noPID := spec("d", "run")
	noPID.StartWait, noPID.PIDFile = 300*time.Millisecond, "/nonexistent/pid"
	before := spec("d", "run")
	before.Before = func(context.Context) error { return errors.New("module x is missing") }
	crash := spec("d", "short")
	f := in(t, "bad.pid", "stuck.pid", "none.pid")
	stuck := spec("d", "stuck", f[1])
	stuck.StartWait, stuck.StopWait = 5*time.Second, 100*time.Millisecond // its daemon has to be there by then
	nobody := spec("d", "fail")
	nobody.Args[0], nobody.PIDFile, nobody.StartWait = "quiet", f[2], 5*time.Second // it has to end by then
	for name, c := range map[string]struct {
		spec Spec
		want string
	}{
		"exits at once":       {spec("d", "fail"), "ended with exit status 3; its last output:\n  line 11\n"},
		"last line":           {spec("d", "fail"), "line 29\n  no such device"},
		"no program":          {missing, "no such file"},
		"crashes":             {crash, "exit status 7; its last output:\n  about to crash"},
		"no socket":           {badSocket, "not ready after 300ms: its socket does not answer"},
		"does not fork":       {noPID, "to go to the background"},
		"prerequisite":        {before, "module x is missing"},
		"forks and fails":     {spec("d", "badfork", f[0]), "exit status 1; its last output:\n  fabric is broken"},
		"forks and stays":     {stuck, "go to the background"},
		"forks, no such file": {nobody, "none.pid: no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var l logtest.Log
			first := spec("first", "fork", in(t, "first.pid")...)
			tm := quickly
			tm.running = 5 * time.Second // the machine may be busy
			s, err := start(t.Context(), l.Logger(), tm, []Spec{first, c.spec})
			var failed *StartError
			if s != nil || !errors.As(err, &failed) || failed.Name != "d" || !strings.Contains(strings.ReplaceAll(err.Error(), "it was to fork and ", "to "), c.want) {
				t.Fatalf("got %v, want %q", err, c.want)
			}
			assert.Equalf(t, false, len(failed.Output) > tailLines, "%d lines", len(failed.Output))
			for _, file := range f[:2] { // they exist if the daemon came so far
				if pid, err := readPID(file); err == nil && alive(pid) && c.spec.PIDFile == file {
					t.Errorf("daemon %d is left", pid)
				}
			}
			assert.Contains(t, l.String(), "ready daemon=first")
		})
	}
}

// Start succeeds without a daemon that is not required; that daemon comes up later.
func TestOptional(t *testing.T) {
	t.Parallel()
	f := in(t, "gate")
	s := spec("late", "run")
	s.Required = false
	s.Before = func(context.Context) error {
		_, err := os.Stat(f[0])
		return err
	}
	ran := 0
	s.After = func(context.Context) error { ran++; return errors.New("after failed") }
	var l logtest.Log
	sup := started(t, &l, quickly, s)
	st := eventually(t, sup, "tried twice", func(st []State) bool { return st[0].Restarts >= 2 && st[0].Reason != "" })
	if st[0].Ready || !strings.Contains(st[0].Reason, "no such file") || strings.Contains(st[0].Reason, "\n") {
		t.Errorf("%+v", st[0])
	}
	require.NoError(t, os.WriteFile(f[0], nil, 0o600))
	for range 2 {
		st = eventually(t, sup, "up", func(st []State) bool { return ready(st[0]) && (st[0].PID != 0) })
		n := st[0].Restarts
		_ = unix.Kill(st[0].PID, unix.SIGKILL)
		eventually(t, sup, "restarted", func(st []State) bool { return st[0].Restarts > n && ready(st[0]) })
	}
	assert.NoError(t, sup.Stop(t.Context()))
	assert.Equalf(t, 1, ran, "After ran")
	assert.Contains(t, l.String(), "daemon=late: after failed")
}

// Start is cancelled: it returns at once and leaves no process.
func TestCancelStart(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	slow := spec("slow", "deaf")
	slow.Socket = "/nonexistent/socket"
	time.AfterFunc(200*time.Millisecond, cancel)
	began := time.Now()
	_, err := start(ctx, logtest.New(t), quickly, []Spec{spec("first", "run"), slow})
	if !errors.Is(err, context.Canceled) || time.Since(began) > 30*time.Second {
		t.Errorf("%v after %v", err, time.Since(began))
	}
}

// A process that SIGKILL does not end, as the kernel keeps it, is named by each stop until it is gone.
func TestStopAgain(t *testing.T) {
	t.Parallel()
	hangs := exec.CommandContext(t.Context(), "sleep", "60")
	require.NoError(t, hangs.Start())
	defer func() { _ = hangs.Process.Kill() }()
	main := adopt(hangs.Process.Pid, func(int) bool { return true })
	main.unwatch()
	d := &daemon{spec: spec("d", "run"), cancel: func() {}, endStop: func() {}, done: make(chan struct{}), last: &process{main: main}}
	close(d.done)
	s := &Supervisor{daemons: []*daemon{d}}
	for range 2 {
		assert.ErrorContains(t, s.Stop(t.Context()), fmt.Sprintf("stop d: process %d does not end after SIGKILL", hangs.Process.Pid))
	}
	require.NoError(t, hangs.Process.Kill())
	_ = hangs.Wait()
	assert.NoError(t, s.Stop(t.Context()))
}

// Daemons that ignore SIGTERM get SIGKILL after StopWait, or as soon as the stop's context ends.
func TestDeaf(t *testing.T) {
	t.Parallel()
	for _, grace := range []time.Duration{time.Minute, 100 * time.Millisecond} {
		f := in(t, "a.pid", "deaf")
		deaf := spec("deaf", "deaf")
		deaf.Env = append(deaf.Env, "DEAF="+f[1])
		forked := spec("forked", "fork", f[0])
		deaf.StopWait = 100 * time.Millisecond
		if grace < time.Minute {
			deaf.StopWait = time.Minute
		}
		var l logtest.Log
		s := started(t, &l, quickly, deaf, forked)
		for end := time.Now().Add(time.Minute); assert.Err(os.Stat(f[1])) != nil && time.Now().Before(end); {
			time.Sleep(5 * time.Millisecond) // it takes a moment until it is deaf
		}
		pids := s.PIDs()
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), grace)
		assert.NoError(t, s.Stop(ctx))
		cancel()
		if d := time.Since(began); d < 90*time.Millisecond || d > 30*time.Second {
			t.Errorf("took %v", d)
		}
		assert.Equalf(t, false, slices.ContainsFunc(pids, alive), "left: %v", pids)
	}
}
