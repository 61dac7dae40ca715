package main

import (
	"encoding/json"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/images/rehearse/wire"
)

// asked sends a request to an agent, and returns its events until the process has ended.
func asked(t *testing.T, r wire.Request) (events []wire.Event) {
	t.Helper()
	ours, theirs := net.Pipe()
	defer ours.Close()
	defer theirs.Close()
	require.NoError(t, ours.SetDeadline(time.Now().Add(2*time.Minute)))
	go func() { _ = (&agent{port: theirs}).serve() }() // until the pipe is closed
	r.Process, r.Env = "p", []string{"PATH=/usr/bin:/bin", "A=1"}
	require.NoError(t, json.NewEncoder(ours).Encode(r))
	for in := json.NewDecoder(ours); ; {
		var e wire.Event
		require.NoError(t, in.Decode(&e))
		if events = append(events, e); e.Kind == wire.Exited || e.Kind == wire.Failed {
			return events
		}
	}
}

func TestProcess(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "pid")
	long, part := "head -c 100000 /dev/zero | tr '\\0' x", strings.Repeat("x", 32<<10)
	for name, test := range map[string]struct {
		request wire.Request
		lines   string
		code    int
		pid     int // 0: its own
	}{
		"output":    {wire.Request{Args: []string{"sh", "-c", "echo $A; cat >&2; printf three; exit 4"}, Input: []byte("two\n")}, "1|two|three", 4, 0},
		"a signal":  {wire.Request{Args: []string{"sh", "-c", "kill -9 $$"}}, "", 128 + 9, 0},
		"a runtime": {wire.Request{Args: []string{"sh", "-c", `echo 12345 >"$0.new"; mv "$0.new" "$0"`, file}, PIDFile: file}, "", 0, 12345},
		// A line that is longer than the limit comes in parts, and no part is lost.
		"a long line": {wire.Request{Args: []string{"sh", "-c", long}}, part + "|" + part + "|" + part + "|" + part[:100000-3*len(part)], 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var lines []string
			pid := 0
			for _, e := range asked(t, test.request) {
				switch e.Kind {
				case wire.Started:
					pid = e.PID
				case wire.Line:
					lines = append(lines, e.Text)
				case wire.Exited:
					assert.Equal(t, test.code, e.Code)
				default:
					t.Errorf("%+v", e)
				}
			}
			assert.Equal(t, test.lines, strings.Join(lines, "|"))
			if pid == 0 || test.pid != 0 && pid != test.pid {
				t.Errorf("pid %d", pid)
			}
		})
	}
}

func TestFails(t *testing.T) {
	t.Parallel()
	for want, r := range map[string]wire.Request{"no command": {}, "no such file": {Args: []string{"/no/such/program"}}} {
		if events := asked(t, r); len(events) != 1 || events[0].Kind != wire.Failed || !strings.Contains(events[0].Text, want) {
			t.Errorf("%s: %+v", want, events)
		}
	}
	// A runtime that fails tells no PID.
	events := asked(t, wire.Request{Args: []string{"sh", "-c", "echo no; exit 1"}, PIDFile: "/no/such/file"})
	if len(events) != 2 || events[0].Text != "no" || events[1].Code != 1 {
		t.Errorf("%+v", events)
	}
}
