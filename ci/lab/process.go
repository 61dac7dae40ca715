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
	seen    int // lines before it have been matched by WaitLine
	news    chan struct{}
	ended   bool
	code    int
	problem string // what the agent says about its end, beyond the code
}

// Line is one line of what a process printed to stdout or stderr.
type Line struct {
	At   time.Time // the guest's clock
	Text string
}

// event records what happened and wakes those who wait.
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

// lost is called when the guest is gone.
func (p *Process) lost() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ended {
		p.ended, p.code, p.problem = true, -1, errGone.Error()
		p.wake()
	}
}

// wait looks at the state under the lock after every event until done says so.
func (p *Process) wait(limit time.Duration, done func() bool) bool {
	timer := time.NewTimer(limit)
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

// Wait waits for the end: the exit code, 128+n when signal n ended it, and everything that was printed.
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

// WaitLine waits for a line that matches, after the last one that WaitLine found. The end of the process without it is a
// failure.
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

// String is the name for messages.
func (p *Process) String() string {
	name := p.spec.Name
	if name == "" {
		name = strings.Join(p.spec.Args, " ")
	}
	return fmt.Sprintf("%s (pid %d)", name, p.PID)
}

// Lines is what was printed so far.
func (p *Process) Lines() []Line {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]Line(nil), p.lines...)
}

// Output is what was printed so far, as one text.
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
	must(p.t, p.client.call(wire.OpSignal, wire.Signal{Process: p.ID, Number: int(s)}, nil, callLimit))
}

// Kill ends everything in a container with SIGKILL, unmounts its root and deletes the upper layer, as containerd does: a bind
// mount of the root is stale from then on. It may be called after the end, and then only does the latter.
func (p *Process) Kill() {
	p.t.Helper()
	must(p.t, p.client.call(wire.OpDestroy, wire.Signal{Process: p.ID}, nil, destroyLimit))
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

// Exec runs a command in the container, as `kubectl exec` and kubelet's probes do. It has the container's environment.
func (p *Process) Exec(args ...string) Result {
	p.t.Helper()
	return p.ExecFor(runLimit, args...)
}

// ExecFor is Exec with another limit.
func (p *Process) ExecFor(limit time.Duration, args ...string) Result {
	p.t.Helper()
	return run(p.t, p.client, wire.Spec{Args: args, Env: p.spec.Env, Join: p.ID, Name: p.spec.Name}, limit)
}

// ExecStart starts a command in the container and does not wait for it.
func (p *Process) ExecStart(args ...string) *Process {
	p.t.Helper()
	return start(p.t, p.client, wire.Spec{Args: args, Env: p.spec.Env, Join: p.ID, Name: p.spec.Name})
}

// Termination is what the container wrote to /dev/termination-log.
func (p *Process) Termination() string {
	p.t.Helper()
	var f wire.File
	must(p.t, p.client.call(wire.OpRead, wire.File{Path: terminationLog(p.spec.PodUID, p.ID)}, &f, callLimit))
	return string(f.Data)
}

func terminationLog(pod, id string) string {
	return "/var/lib/kubelet/pods/" + pod + "/containers/termination-log-" + id[:12]
}

// Result is what came of a command.
type Result struct {
	Args   []string
	Code   int
	Output string // stdout and stderr
	Took   time.Duration
}

// String is for messages.
func (r Result) String() string {
	return fmt.Sprintf("%s: exit code %d after %s\n%s", strings.Join(r.Args, " "), r.Code, r.Took.Round(time.Millisecond), tail(r.Output))
}

// start starts a process; its ID is chosen here, so that no event can come before it is known.
func start(t testing.TB, c *client, spec wire.Spec) *Process {
	t.Helper()
	if spec.ID == "" {
		spec.ID = newID()
	}
	p := &Process{ID: spec.ID, t: t, client: c, spec: spec, started: time.Now(), news: make(chan struct{})}
	c.add(p)
	var answer wire.Started
	if err := c.call(wire.OpStart, spec, &answer, 2*callLimit); err != nil {
		t.Fatalf("start %s: %v", strings.Join(spec.Args, " "), err)
	}
	p.PID = answer.PID
	return p
}

func run(t testing.TB, c *client, spec wire.Spec, limit time.Duration) Result {
	t.Helper()
	p := start(t, c, spec)
	code, output := p.Wait(limit)
	return Result{spec.Args, code, output, time.Since(p.started)}
}

// tail keeps messages readable: the end is where errors are.
func tail(s string) string {
	const most = 8000
	if len(s) <= most {
		return s
	}
	return "[...]" + s[len(s)-most:]
}
