package guest

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/images/rehearse/wire"
)

// fakeGuest starts processes that print two lines and end with 3. The process "forever" does not end, "never" does
// not start, "hang" gives no answer, "talk" prints more than is kept, "nonsense" breaks the protocol, and "die" ends
// the guest.
func fakeGuest(t *testing.T) *client {
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
			case "nonsense":
				_, _ = theirs.Write([]byte("\x1b[2J\n"))
				continue
			case "never":
				_ = out.Encode(wire.Event{Kind: wire.Line, Process: r.Process, Text: "no rootfs"})
				_ = out.Encode(wire.Event{Kind: wire.Exited, Process: r.Process, Code: 1})
				continue
			}
			_ = out.Encode(wire.Event{Kind: wire.Line, Process: r.Process, Text: "first", Nanos: 1e9})
			_ = out.Encode(wire.Event{Kind: wire.Started, Process: r.Process, PID: 77})
			_ = out.Encode(wire.Event{Kind: wire.Started, Process: r.Process, PID: 1})
			for range 80 {
				if r.Args[0] == "talk" {
					_ = out.Encode(wire.Event{Kind: wire.Line, Process: r.Process, Text: strings.Repeat("\x1b", wire.MaxText)})
				}
			}
			if r.Args[0] != "forever" {
				_ = out.Encode(wire.Event{Kind: wire.Line, Process: r.Process, Text: "sec\tond\r"})
				_ = out.Encode(wire.Event{Kind: wire.Exited, Process: r.Process, Code: 3})
				_ = out.Encode(wire.Event{Kind: wire.Exited, Process: "another"})
			}
		}
	}()
	return connect(ours, func() error { return errors.New("QEMU ended") })
}

func TestProcess(t *testing.T) {
	t.Parallel()
	c := fakeGuest(t)
	p := require.Value(c.start(t.Context(), wire.Request{Args: []string{"x"}}))(t)
	assert.Equal(t, "first", require.Value(p.WaitLine(t.Context(), regexp.MustCompile("^f")))(t))
	assert.Equal(t, "sec\tond\\r", require.Value(p.WaitLine(t.Context(), regexp.MustCompile("s.*d")))(t))
	assert.ErrorContains(t, assert.Err(p.WaitLine(t.Context(), regexp.MustCompile("^f"))), "ended with 3 and no line like")
	assert.Equal(t, 3, require.Value(p.Wait(t.Context()))(t))
	assert.Equal(t, "first\nsec\tond\\r\n", p.Output())
	assert.Equal(t, false, p.Running())
	assert.Equal(t, 77, p.PID)
	assert.Equalf(t, 1, p.Lines()[0].At.Unix(), "time of the first line")
	result := require.Value(c.run(t.Context(), wire.Request{Args: []string{"y"}}))(t)
	assert.Contains(t, result.String(), "exit code 3")
	c.mu.Lock()
	defer c.mu.Unlock()
	assert.Equalf(t, 0, len(c.processes), "processes that have ended")
}

// TestMuchOutput: of a process that prints without end some MiB are kept, and a line says so.
func TestMuchOutput(t *testing.T) {
	t.Parallel()
	c := fakeGuest(t)
	result := require.Value(c.run(t.Context(), wire.Request{Args: []string{"talk"}}))(t)
	if len(result.Output) > maxOutput+8*wire.MaxText {
		t.Errorf("%d bytes were kept", len(result.Output))
	}
	assert.Contains(t, result.Output[len(result.Output)-100:], "the rest is left out]\n")
	assert.Equalf(t, false, strings.Contains(result.Output, "\x1b"), "it has escape sequences")
}

// TestGuestEnds: starts and waits end with an error when the guest ends, or breaks the protocol.
func TestGuestEnds(t *testing.T) {
	t.Parallel()
	for end, why := range map[string]string{"die": "QEMU ended", "nonsense": "it sent \\x1b[2J, which is no event"} {
		c := fakeGuest(t)
		assert.ErrorContainsf(t, assert.Err(c.start(t.Context(), wire.Request{Args: []string{"never"}})), "no rootfs", "a container that does not start")
		p := require.Value(c.start(t.Context(), wire.Request{Args: []string{"forever"}}))(t)
		short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		assert.ErrorContainsf(t, assert.Err(p.Wait(short)), "still runs: context deadline exceeded", "a wait")
		short, cancel = context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		assert.ErrorContainsf(t, assert.Err(c.start(short, wire.Request{Args: []string{"hang"}})), "no answer from the guest", "a start")
		for _, what := range []string{end, "x"} {
			assert.Errorf(t, assert.Err(c.start(t.Context(), wire.Request{Args: []string{what}})), "%s started", what)
		}
		gone := assert.Err(p.Wait(t.Context()))
		assert.ErrorContains(t, gone, "the guest is gone: "+why)
		noLine := assert.Err(p.WaitLine(t.Context(), regexp.MustCompile("x")))
		assert.ErrorContainsf(t, noLine, gone.Error(), "the error of a wait for a line")
	}
}

// FuzzEvents: whatever a guest says, the client ends, keeps a bounded part of it, and shows no control
// characters.
func FuzzEvents(f *testing.F) {
	f.Add([]byte(`{"Kind":"line","Process":"p","Text":"a\u001b[2J"}` + "\n" + `{"Kind":"exited","Process":"p","Code":-1}`))
	f.Add([]byte(`{"Kind":"ready","Text":"6.1\n"}` + "\n" + `{"Kind":"started","Process":"p","PID":-7}` + "\n" + `{"Kind":"failed","Process":"p","Text":"\r"}`))
	f.Add([]byte("[]\n{}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		ours, theirs := net.Pipe()
		c := &client{port: ours, processes: map[string]*Process{}, ready: make(chan string, 1), gone: make(chan struct{})}
		p := &Process{ID: "p", client: c, name: "p", news: make(chan struct{})}
		c.processes["p"] = p
		go func() {
			_, _ = theirs.Write(data)
			_ = theirs.Close()
		}()
		_ = c.receive(ours)
		_ = ours.Close()
		select {
		case release := <-c.ready:
			printable(t, release)
		default:
		}
		printable(t, strings.NewReplacer("\n", "", "\t", "").Replace(p.Output()+p.problem))
	})
}

func printable(t *testing.T, text string) {
	t.Helper()
	for _, c := range text {
		if c < ' ' || c == 0x7f {
			t.Errorf("a control character in %q", text)
		}
	}
}
