package lab

import (
	"fmt"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/lab/wire"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

const (
	callLimit    = 60 * time.Second // of requests that the agent answers itself
	destroyLimit = 90 * time.Second
	runLimit     = 60 * time.Second // of Run and Exec
)

// Process is a process in the guest: a container, a process in a container, or one on the guest's host.
type Process struct {
	ID  string
	PID int // as the guest's host sees it

	t       testing.TB
	client  *client
	spec    wire.Spec
	started time.Time
	mu      sync.Mutex
	lines   []Line
	seen    int // WaitLine has matched the lines before this index
	news    chan struct{}
	ended   bool
	code    int
	problem string // the agent's description of its end, beyond the code
}

// Line is one line of a process's stdout or stderr.
type Line struct {
	At   time.Time // the guest's clock
	Text string
}

// event records an event and wakes all waits.
func (p *Process) event(m wire.Message) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch m.Event {
	case wire.EventLine:
		p.lines = append(p.lines, Line{time.Unix(0, m.Nanos), m.Text})
	case wire.EventExit:
		p.ended, p.code, p.problem = true, m.Code, m.Error
	}
	p.wake()
}

func (p *Process) wake() {
	close(p.news)
	p.news = make(chan struct{})
}

// lost is called when the guest has ended.
func (p *Process) lost() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ended {
		p.ended, p.code, p.problem = true, -1, errGone.Error()
		p.wake()
	}
}

// wait checks the state under the lock after every event until done returns true.
func (p *Process) wait(limit time.Duration, done func() bool) bool {
	timer := time.NewTimer(p.client.patience.Limit(limit))
	defer timer.Stop()
	for {
		p.mu.Lock()
		ok, news := done(), p.news
		p.mu.Unlock()
		if ok {
			return true
		}
		select {
		case <-news:
		case <-timer.C:
			return false
		}
	}
}

// Wait waits for the end and returns the exit code, which is 128+n when signal n ended the process, and all
// output.
func (p *Process) Wait(limit time.Duration) (code int, output string) {
	p.t.Helper()
	if !p.wait(limit, func() bool { return p.ended }) {
		p.t.Fatalf("%s still runs after %s; it printed:\n%s", p, limit, tail(p.Output()))
	}
	if p.problem != "" {
		p.t.Fatalf("%s: %s; it printed:\n%s", p, p.problem, tail(p.Output()))
	}
	return p.code, p.Output()
}

// WaitLine waits for a line that matches, after WaitLine's last match. If the process ends without such a
// line, the test fails.
func (p *Process) WaitLine(pattern string, limit time.Duration) string {
	p.t.Helper()
	re := regexp.MustCompile(pattern)
	line, found := "", false
	over := p.wait(limit, func() bool {
		for ; p.seen < len(p.lines) && !found; p.seen++ {
			line, found = p.lines[p.seen].Text, re.MatchString(p.lines[p.seen].Text)
		}
		return found || p.ended
	})
	switch {
	case found:
		return line
	case over:
		p.t.Fatalf("%s ended with %d and no line like %q %s; it printed:\n%s", p, p.code, pattern, p.problem, tail(p.Output()))
	default:
		p.t.Fatalf("%s has no line like %q after %s; it printed:\n%s", p, pattern, limit, tail(p.Output()))
	}
	return ""
}

// String returns the name for messages.
func (p *Process) String() string {
	name := p.spec.Name
	if name == "" {
		name = strings.Join(p.spec.Args, " ")
	}
	return fmt.Sprintf("%s (pid %d)", name, p.PID)
}

// Lines returns the output so far.
func (p *Process) Lines() []Line {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]Line(nil), p.lines...)
}

// Output returns the output so far, as one text.
func (p *Process) Output() string {
	var b strings.Builder
	for _, l := range p.Lines() {
		b.WriteString(l.Text + "\n")
	}
	return b.String()
}

// Running says whether the first process still runs.
func (p *Process) Running() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.ended
}

// Signal sends a signal to the first process.
func (p *Process) Signal(s syscall.Signal) {
	p.t.Helper()
	require.NoError(p.t, p.client.call(wire.OpSignal, wire.Signal{Process: p.ID, Number: int(s)}, nil, callLimit))
}

// Kill ends all processes of a container with SIGKILL, unmounts its root and deletes the upper layer, as
// containerd does: a bind mount of the root is stale from then on. If the container has ended before, Kill
// only does the clean-up.
func (p *Process) Kill() {
	p.t.Helper()
	require.NoError(p.t, p.client.call(wire.OpDestroy, wire.Signal{Process: p.ID}, nil, destroyLimit))
	if !p.wait(callLimit, func() bool { return p.ended }) {
		p.t.Fatalf("%s: no news of its end", p)
	}
}

// Stop sends SIGTERM and waits for the end.
func (p *Process) Stop(limit time.Duration) (code int, output string) {
	p.t.Helper()
	p.Signal(syscall.SIGTERM)
	return p.Wait(limit)
}
