package lab

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/lab/wire"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

const (
	callLimit  = 60 * time.Second  // for the guest to take a request
	startLimit = 120 * time.Second // of a process, with the set-up of its container
	runLimit   = 60 * time.Second  // of Run and Exec
)

// Process is a process in the guest: a container, a process in a container, or one on the guest's
// host.
type Process struct {
	ID  string
	PID int // as the guest's host sees it

	t       testing.TB
	client  *Client
	args    []string
	pod     *Container // nil for a process on the host, or one in a container
	started time.Time
	mu      sync.Mutex
	lines   []Line
	seen    int // WaitLine has matched the lines before this index
	news    chan struct{}
	ended   bool
	code    int
	problem string // it did not start, or the guest is gone
}

// Line is one line of a process's stdout or stderr.
type Line struct {
	At   time.Time // the guest's clock
	Text string
}

// event records an event and wakes all waits.
func (p *Process) event(e wire.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.ended:
		return
	case e.Kind == wire.Started:
		p.PID = e.PID
	case e.Kind == wire.Line:
		p.lines = append(p.lines, Line{time.Unix(0, e.Nanos), e.Text})
	default:
		p.ended = true
		p.code = e.Code
		p.problem = e.Text
	}
	close(p.news)
	p.news = make(chan struct{})
}

// wait checks the state under the lock after every event until done returns true.
func (p *Process) wait(limit time.Duration, done func() bool) bool {
	timer := time.NewTimer(p.client.Patience.Limit(limit))
	defer timer.Stop()
	for {
		p.mu.Lock()
		ok := done()
		news := p.news
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

// end waits for the end.
func (p *Process) end(limit time.Duration) error {
	if !p.wait(limit, func() bool { return p.ended }) {
		return fmt.Errorf("%s still runs after %s; it printed:\n%s", p, limit, tail(p.Output()))
	}
	if p.problem != "" {
		return fmt.Errorf("%s: %s; it printed:\n%s", p, p.problem, tail(p.Output()))
	}
	return nil
}

// Wait waits for the end and returns the exit code, which is 128+n when signal n ended the process,
// and all output.
func (p *Process) Wait(limit time.Duration) (code int, output string) {
	p.t.Helper()
	require.NoError(p.t, p.end(limit))
	return p.code, p.Output()
}

// WaitLine waits for a line that matches, after WaitLine's last match. If the process ends without
// such a line, the test fails.
func (p *Process) WaitLine(pattern string, limit time.Duration) string {
	p.t.Helper()
	re := regexp.MustCompile(pattern)
	line := ""
	found := false
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
		p.t.Fatalf(
			"%s ended with %d and no line like %q %s; it printed:\n%s",
			p,
			p.code,
			pattern,
			p.problem,
			tail(p.Output()),
		)
	default:
		p.t.Fatalf(
			"%s has no line like %q after %s; it printed:\n%s",
			p,
			pattern,
			limit,
			tail(p.Output()),
		)
	}
	return ""
}

// String returns the name for messages.
func (p *Process) String() string {
	name := strings.Join(p.args, " ")
	if p.pod != nil {
		name = p.pod.Name
	}
	return fmt.Sprintf("%.200s (pid %d)", name, p.PID)
}

// Lines returns the output so far.
func (p *Process) Lines() []Line {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.lines)
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

// host runs a command on the guest's host, which must succeed.
func (p *Process) host(args ...string) string {
	p.t.Helper()
	out, err := p.client.output(p.t, wire.Request{Args: args}, startLimit)
	require.NoErrorf(p.t, err, "%s", p)
	return out
}

// Signal sends a signal to the first process.
func (p *Process) Signal(s syscall.Signal) {
	p.t.Helper()
	p.host("kill", "-"+strconv.Itoa(int(s)), strconv.Itoa(p.PID))
}

// Kill ends all processes of a container with SIGKILL, unmounts its root and deletes the upper
// layer, as containerd does: a bind mount of the root is stale from then on. If the container has
// ended before, Kill only does the clean-up.
func (p *Process) Kill() {
	p.t.Helper()
	if p.pod != nil {
		p.host("runc", "--root", runcState, "delete", "--force", p.ID)
	} else {
		p.host("sh", "-c", `kill -9 "$1" 2>/dev/null || true`, "sh", strconv.Itoa(p.PID))
	}
	if !p.wait(callLimit, func() bool { return p.ended }) {
		p.t.Fatalf("%s: no news of its end", p)
	}
	if p.pod != nil {
		p.host(
			"sh",
			"-c",
			removeContainer,
			"sh",
			bundleDir(p.ID),
			snapshots+"/"+p.ID,
			"/sys/fs/cgroup"+p.pod.cgroup(p.ID),
		)
	}
}

// removeContainer removes what is left of a container. runc gives a group up that is not empty soon
// after SIGKILL.
const removeContainer = `[ ! -d "$1" ] || rmdir "$1/rootfs" && rm -rf "$1" "$2"
while [ -d "$3" ]; do find "$3" -depth -type d -exec rmdir {} \; ; sleep 0.1; done 2>/dev/null`

// Stop sends SIGTERM and waits for the end.
func (p *Process) Stop(limit time.Duration) (code int, output string) {
	p.t.Helper()
	p.Signal(syscall.SIGTERM)
	return p.Wait(limit)
}

// Exec runs a command in the container with the container's environment, as `kubectl exec` and
// kubelet's probes do.
func (p *Process) Exec(args ...string) Result {
	p.t.Helper()
	return require.Value(p.client.Run(p.t, p.inside(args), runLimit))(p.t)
}

// Hold opens a device file in the container and keeps it open until Kill. It returns when the file
// is open.
func (p *Process) Hold(device string) *Process {
	p.t.Helper()
	return hold(p.t, p.client, p.inside(holding(device)))
}

func (p *Process) inside(args []string) wire.Request {
	id := newID()
	file := bundleDir(p.ID) + "/" + id
	args = append([]string{"runc", "--root", runcState, "exec", "--pid-file", file, p.ID}, args...)
	return wire.Request{Process: id, PIDFile: file, Args: args}
}

// Termination returns the content of the container's /dev/termination-log.
func (p *Process) Termination() string {
	p.t.Helper()
	return p.host("cat", terminationLog(p.pod.PodUID, p.ID))
}
