package lab

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/lab/wire"
	"github.com/driver-container/driver-container/ci/testkit/assert"
)

// fakeAgent answers as a guest's agent would; do makes the answers.
func fakeAgent(t *testing.T, do func(r wire.Request, send func(wire.Message))) *client {
	t.Helper()
	ours, theirs := net.Pipe()
	t.Cleanup(func() { ours.Close(); theirs.Close() })
	c := newClient(ours)
	go func() {
		defer theirs.Close()
		var mu sync.Mutex
		send := func(m wire.Message) {
			text, _ := json.Marshal(m)
			mu.Lock()
			defer mu.Unlock()
			theirs.Write(append(text, '\n'))
		}
		lines := bufio.NewScanner(theirs)
		for lines.Scan() {
			var r wire.Request
			if json.Unmarshal(lines.Bytes(), &r) != nil || r.Op == "die" {
				return
			}
			do(r, send)
		}
	}()
	return c
}

// TestAnswersOutOfOrder: every caller gets its own answer.
func TestAnswersOutOfOrder(t *testing.T) {
	t.Parallel()
	var held []wire.Request
	c := fakeAgent(t, func(r wire.Request, send func(wire.Message)) {
		if held = append(held, r); len(held) < 8 {
			return
		}
		for i := range held { // the last first
			r := held[len(held)-1-i]
			send(wire.Message{ID: r.ID, Body: r.Body})
		}
	})
	var wait sync.WaitGroup
	for i := range 8 {
		wait.Go(func() {
			var f wire.File
			path := fmt.Sprint("/", i)
			if err := c.call(wire.OpRead, wire.File{Path: path}, &f, time.Minute); err != nil || f.Path != path {
				t.Errorf("asked for %s, got %q, %v", path, f.Path, err)
			}
		})
	}
	wait.Wait()
}

func TestCallFails(t *testing.T) {
	t.Parallel()
	silent := func(wire.Request, func(wire.Message)) {}
	c := fakeAgent(t, silent)
	assert.ErrorContainsf(t, c.call(wire.OpRead, wire.File{}, nil, 20*time.Millisecond), "no answer", "a silent guest")
	c = fakeAgent(t, func(r wire.Request, send func(wire.Message)) { send(wire.Message{ID: r.ID, Error: "no such file"}) })
	assert.ErrorContainsf(t, c.call(wire.OpRead, wire.File{}, nil, time.Minute), "no such file", "an error of the agent")
	assert.ErrorIsf(t, c.call("die", wire.File{}, nil, time.Minute), errGone, "the guest ends during a call")
	assert.ErrorIsf(t, c.call(wire.OpRead, wire.File{}, nil, time.Minute), errGone, "the guest had ended before")
}

// printing returns an agent whose processes print two lines and end with 3; "forever" never ends.
func printing(r wire.Request, send func(wire.Message)) {
	var spec wire.Spec
	_ = json.Unmarshal(r.Body, &spec)
	send(wire.Message{Event: wire.EventLine, Process: spec.ID, Text: "first", Nanos: 1e9})
	send(wire.Message{ID: r.ID, Body: json.RawMessage(`{"PID":77}`)})
	if spec.Args[0] == "forever" {
		return
	}
	send(wire.Message{Event: wire.EventLine, Process: spec.ID, Text: "second"})
	send(wire.Message{Event: wire.EventExit, Process: spec.ID, Code: 3})
	send(wire.Message{Event: wire.EventExit, Process: "another"})
}

func TestProcess(t *testing.T) {
	t.Parallel()
	c := fakeAgent(t, printing)
	p := start(t, c, wire.Spec{Args: []string{"x"}})
	assert.Equalf(t, "first second", (p.WaitLine("^f", time.Minute) + " " + p.WaitLine("s.*d", time.Minute)), "lines")
	if code, out := p.Wait(time.Minute); code != 3 || out != "first\nsecond\n" || p.PID != 77 || p.Running() {
		t.Errorf("code %d, pid %d, %q", code, p.PID, out)
	}
	if at := p.Lines()[0].At; at.Unix() != 1 {
		t.Errorf("time of the first line: %v", at)
	}
	r := run(t, c, wire.Spec{Args: []string{"y"}}, time.Minute)
	if r.Code != 3 || !strings.Contains(r.String(), "exit code 3") {
		t.Error(r)
	}
}

// TestGuestEnds: a wait for a process ends with an error when the guest ends.
func TestGuestEnds(t *testing.T) {
	t.Parallel()
	c := fakeAgent(t, printing)
	p := start(t, c, wire.Spec{Args: []string{"forever"}})
	go func() { _ = c.call("die", nil, nil, time.Minute) }()
	if !p.wait(time.Minute, func() bool { return p.ended }) || p.problem == "" {
		t.Errorf("ended %v, problem %q", p.ended, p.problem)
	}
}

func TestContainerSpec(t *testing.T) {
	t.Parallel()
	images := map[string]Image{"a": {Env: []string{"PATH=/bin"}, Command: []string{"nvidia-driver", "init"}}}
	c := DriverPod("a", "X=1").Without("/drivers").With(Mount{Host: "/h", Guest: "/g", File: true})
	c.Args = []string{"--accept-license"}
	s := c.spec(images)
	assert.Same(t, []string{"nvidia-driver", "init", "--accept-license"}, s.Args)
	assert.Same(t, []string{"PATH=/bin", "HOME=/root", "X=1"}, s.Env)
	binds := map[string]wire.Bind{}
	for _, b := range s.Binds {
		binds[b.Guest] = b
	}
	if _, found := binds["/drivers"]; found || !binds["/g"].File || !binds["/run/nvidia"].Shared || !binds["/dev/termination-log"].File {
		t.Errorf("binds: %+v", s.Binds)
	}
	if len(s.ID) != 64 || len(s.PodUID) != 36 || s.Image != "/lab/images/a" {
		t.Errorf("spec: %+v", s)
	}
	if len(DriverPod("a").spec(images).Binds) == len(s.Binds)-1 {
		t.Error("With and Without changed the original")
	}
	host := Container{Command: []string{"true"}}.spec(nil)
	if host.Image != "" || len(host.Binds) != 0 || host.Args[0] != "true" {
		t.Errorf("host process: %+v", host)
	}
}
