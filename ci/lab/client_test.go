package lab

import (
	"encoding/json"
	"net"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/lab/wire"
	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

// fakeAgent starts processes that print two lines and end with 3. The process "forever" does not end, "never" does
// not start, "hang" gives no answer, and "die" ends the guest.
func fakeAgent(t *testing.T) *Client {
	t.Helper()
	ours, theirs := net.Pipe()
	t.Cleanup(func() { ours.Close(); theirs.Close() })
	go func() {
		defer theirs.Close()
		out := json.NewEncoder(theirs)
		for in := json.NewDecoder(theirs); ; {
			var r wire.Request
			if in.Decode(&r) != nil || r.Args[0] == "die" {
				return
			}
			switch r.Args[0] {
			case "hang":
				continue
			case "never":
				_ = out.Encode(wire.Event{Kind: wire.Line, Process: r.Process, Text: "no rootfs"})
				_ = out.Encode(wire.Event{Kind: wire.Exited, Process: r.Process, Code: 1})
				continue
			}
			_ = out.Encode(wire.Event{Kind: wire.Line, Process: r.Process, Text: "first", Nanos: 1e9})
			_ = out.Encode(wire.Event{Kind: wire.Started, Process: r.Process, PID: 77})
			if r.Args[0] != "forever" {
				_ = out.Encode(wire.Event{Kind: wire.Line, Process: r.Process, Text: "second"})
				_ = out.Encode(wire.Event{Kind: wire.Exited, Process: r.Process, Code: 3})
				_ = out.Encode(wire.Event{Kind: wire.Exited, Process: "another"})
			}
		}
	}()
	return Connect(ours)
}

func TestProcess(t *testing.T) {
	t.Parallel()
	c := fakeAgent(t)
	p := require.Value(c.start(t, wire.Request{Args: []string{"x"}}))(t)
	assert.Equalf(t, "first second", p.WaitLine("^f", time.Minute)+" "+p.WaitLine("s.*d", time.Minute), "lines")
	if code, out := p.Wait(time.Minute); code != 3 || out != "first\nsecond\n" || p.PID != 77 || p.Running() {
		t.Errorf("code %d, pid %d, %q", code, p.PID, out)
	}
	assert.Equalf(t, 1, p.Lines()[0].At.Unix(), "time of the first line")
	assert.Contains(t, require.Value(c.Run(t, wire.Request{Args: []string{"y"}}, time.Minute))(t).String(), "exit code 3")
}

// TestGuestEnds: starts and waits end with an error when the guest ends.
func TestGuestEnds(t *testing.T) {
	t.Parallel()
	c := fakeAgent(t)
	assert.ErrorContainsf(t, assert.Err(c.start(t, wire.Request{Args: []string{"never"}})), "no rootfs", "a container that does not start")
	p := require.Value(c.start(t, wire.Request{Args: []string{"forever"}}))(t)
	assert.ErrorContainsf(t, p.end(time.Millisecond), "still runs", "a wait")
	for _, what := range []string{"die", "x"} {
		assert.Errorf(t, assert.Err(c.start(t, wire.Request{Args: []string{what}})), "%s started", what)
	}
	assert.ErrorContainsf(t, p.end(time.Minute), "the guest is gone", "a wait")
}
