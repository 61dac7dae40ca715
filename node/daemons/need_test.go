package daemons

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/logtest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
)

// A daemon that needs another one is ended and started again after that one, also while that one does not
// start; its own end does not concern the other one.
func TestNeeds(t *testing.T) {
	t.Parallel()
	lower, upper := spec("lower", "run"), spec("upper", "run")
	lower.Required, upper.Required, upper.Needs, upper.Effect = false, false, "lower", "nothing works"
	broken := filepath.Join(t.TempDir(), "broken")
	lower.Before = func(context.Context) error {
		if _, err := os.Stat(broken); err == nil {
			return fmt.Errorf("there is %s", broken)
		}
		return nil
	}
	upper.FindArgs = func(context.Context) ([]string, string, error) { return []string{"more"}, "port 1", nil }
	var l logtest.Log
	s := started(t, &l, quickly, lower, upper)
	first := s.States()
	if !ready(first[0]) || !ready(first[1]) || first[1].Detail != "port 1" {
		t.Fatalf("%+v", first)
	}

	require.NoError(t, unix.Kill(first[1].PID, unix.SIGKILL))
	second := eventually(t, s, "the upper one is up again", func(st []State) bool { return ready(st[1]) && st[1].Restarts == 1 })
	assert.Equal(t, first[0].PID, second[0].PID)

	require.NoError(t, os.WriteFile(broken, nil, 0o644))
	require.NoError(t, unix.Kill(first[0].PID, unix.SIGKILL))
	down := eventually(t, s, "both are down", func(st []State) bool { return !ready(st[0]) && !ready(st[1]) && st[0].Restarts > 1 })
	for end := time.Now().Add(time.Minute); alive(second[1].PID) && time.Now().Before(end); { // its state changes before it ends
		time.Sleep(5 * time.Millisecond)
	}
	if alive(second[1].PID) || down[1].Restarts != 1 {
		t.Errorf("the upper one runs without the lower one: %+v", down)
	}
	assert.Contains(t, Down(down), "; upper is not running: it is started again after lower, which has ended (nothing works)")

	require.NoError(t, os.Remove(broken))
	up := eventually(t, s, "both are up again", func(st []State) bool { return ready(st[0]) && ready(st[1]) })
	if up[1].Restarts != 2 || up[1].Since.Before(up[0].Since) {
		t.Errorf("%+v", up)
	}
	assert.NoError(t, s.Stop(t.Context()))
}

// A daemon is not started before the one that it needs, and does not prevent a stop.
func TestNeedNeverReady(t *testing.T) {
	t.Parallel()
	lower, upper := spec("lower", "run"), spec("upper", "run")
	lower.Required, upper.Required, upper.Needs = false, false, "lower"
	lower.Before = func(context.Context) error { return errors.New("there is no port") }
	var l logtest.Log
	s := started(t, &l, quickly, lower, upper)
	states := eventually(t, s, "three attempts", func(st []State) bool { return st[0].Restarts >= 3 })
	if states[1].Running || states[1].Restarts != 0 || states[1].Reason != "it waits for lower" {
		t.Errorf("%+v", states[1])
	}
	began := time.Now()
	assert.NoError(t, s.Stop(t.Context()))
	assert.Equalf(t, true, time.Since(began) < 30*time.Second, "it stops at once")
}

// A program that prints nothing is explained by its log, if it wrote that.
func TestLogFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "log")
	require.NoError(t, os.WriteFile(file, []byte(strings.Repeat("x\n", maxLogTail)+"it is of another version\n"), 0o644))
	got := logTail(file, time.Now())
	assert.Equal(t, tailLines, len(got))
	assert.Equal(t, "it is of another version", got[len(got)-1])
	for name, got := range map[string][]string{"of an earlier run": logTail(file, time.Now().Add(time.Hour)), "none": logTail("", time.Time{}), "a folder": logTail(filepath.Dir(file), time.Time{})} {
		assert.Equalf(t, 0, len(got), "%s", name)
	}
}

func TestPersistenced(t *testing.T) {
	t.Parallel()
	assert.Equalf(t, 0, len(Persistenced(t.TempDir())), "an empty image has")
	root := testfile.Tree(t, t.TempDir(), map[string]string{"usr/bin/nvidia-persistenced": ""})
	specs := Persistenced(root)
	if len(specs) != 1 || specs[0].Name != "nvidia-persistenced" {
		t.Fatalf("%+v", specs)
	}
	assert.Equal(t, root+"/var/run/nvidia-persistenced/socket", specs[0].Socket)
}

// A daemon that a killed predecessor left is ended before ours starts; a process that only has its number is
// not.
func TestLeftovers(t *testing.T) {
	t.Parallel()
	f := in(t, "a.pid", "foreign.pid", "junk.pid")
	old := spec("old", "fork", f[0])
	var l logtest.Log
	p := require.Value(launch(t.Context(), t.Context(), old, quickly))(t)
	left := p.main.pid
	foreign := exec.CommandContext(t.Context(), "sleep", "60")
	require.NoError(t, foreign.Start())
	defer func() { _ = foreign.Process.Kill(); _ = foreign.Wait() }()
	for file, text := range map[string]string{f[1]: strconv.Itoa(foreign.Process.Pid), f[2]: "junk\x00"} {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	}
	s := started(t, &l, quickly, spec("a", "fork", f[0]), spec("b", "fork", f[1]), spec("c", "fork", f[2]))
	assert.Equalf(t, false, alive(left), "the old daemon still runs")
	assert.Equalf(t, true, alive(foreign.Process.Pid), "a foreign process was ended")
	for i, st := range s.States() {
		if !ready(st) || st.PID != pidOf(t, f[i]) || st.PID == left || st.PID == foreign.Process.Pid {
			t.Errorf("%+v", st)
		}
	}
	p.main.unwatch()
	p.out.close()
}

// A process with the same number and another start time is another process.
func TestStranger(t *testing.T) {
	t.Parallel()
	f := in(t, "a.pid")
	p := require.Value(launch(t.Context(), t.Context(), spec("a", "fork", f[0]), quickly))(t)
	stranger := &member{pid: p.main.pid, begun: "1"}
	stranger.signal(unix.SIGKILL)
	time.Sleep(20 * time.Millisecond)
	if !p.main.alive() || stranger.alive() {
		t.Error("the other process got the signal")
	}
	assert.NoError(t, p.terminate(t.Context(), time.Minute))
}

func TestParsePID(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{"4711\n": 4711, " 2 ": 2, "1": 0, "0": 0, "-5": 0, "": 0, "x": 0, "99999999999": 0} {
		if got, err := parsePID("f", []byte(text)); got != want || (err == nil) != (want != 0) {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo")
	require.NoError(t, unix.Mkfifo(fifo, 0o600))
	assert.Errorf(t, assert.Err(readPID(fifo)), "fifo")
	assert.Errorf(t, assert.Err(readPID(dir)), "folder")
}

func TestTail(t *testing.T) {
	t.Parallel()
	tl, w, err := newTail()
	require.NoError(t, err)
	for i := range 100 {
		require.Value(w.WriteString("line " + strconv.Itoa(i) + "\x1b[0m\n\n"))(t)
	}
	require.Value(w.WriteString(strings.Repeat("x", 9000) + "\nend"))(t)
	began := time.Now()
	tl.close() // w stays open, as when another process has it
	got := tl.last()
	if len(got) != tailLines || got[len(got)-1] != "end" || len(got[len(got)-2]) > tailLength || time.Since(began) > 30*time.Second {
		t.Errorf("%d lines: %q", len(got), got)
	}
	w.Close()
}

func FuzzParsePID(f *testing.F) {
	f.Add([]byte("4711\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if pid, err := parsePID("f", b); err == nil && pid < 2 {
			t.Errorf("%q: %d", b, pid)
		}
	})
}
