package daemons

import (
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
)

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
	if alive(left) {
		t.Error("the old daemon still runs")
	}
	if !alive(foreign.Process.Pid) {
		t.Error("a foreign process was ended")
	}
	for i, st := range s.States() {
		if !ready(st) || st.PID != pidOf(t, f[i]) || st.PID == left || st.PID == foreign.Process.Pid {
			t.Errorf("%+v", st)
		}
	}
	p.main.forget()
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
