package guest

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/driver-container/driver-container/distros/escape"
	"github.com/driver-container/driver-container/images/rehearse/wire"
)

// maxOutput bounds what is kept of a process's output, in bytes. The kernel's log has 4 MiB.
const maxOutput = 8 << 20

// Process is a process in the guest: a container, a process in a container, or one on the guest's
// host.
type Process struct {
	ID  string
	PID int // as the guest's host sees it

	client  *client
	name    string     // for messages
	pod     *Container // nil for a process on the host, or one in a container
	started time.Time
	mu      sync.Mutex
	lines   []Line
	kept    int // bytes of lines
	cut     bool
	seen    int // WaitLine has matched the lines before this index
	news    chan struct{}
	ended   bool
	code    int
	problem string // it did not start, or the guest is gone
}

// Line is one line of a process's stdout or stderr, escaped.
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
		if p.PID == 0 { // once: it is read without the lock
			p.PID = e.PID
		}
	case e.Kind == wire.Line:
		p.keep(time.Unix(0, e.Nanos), e.Text)
	default:
		p.ended = true
		p.code = e.Code
		p.problem = escape.Text(e.Text)
	}
	close(p.news)
	p.news = make(chan struct{})
}

// keep adds a line, or says once that there were more. A line has a cost of its own.
func (p *Process) keep(at time.Time, text string) {
	const cost = 64
	switch {
	case p.kept < maxOutput:
		line := Line{at, escape.Text(text)}
		p.kept += cost + len(line.Text)
		p.lines = append(p.lines, line)
	case !p.cut:
		p.cut = true
		p.lines = append(p.lines, Line{at, fmt.Sprintf("[after %d bytes the rest is left out]", p.kept)})
	}
}

// wait checks the state under the lock after every event until done returns true.
func (p *Process) wait(ctx context.Context, done func() bool) error {
	for {
		p.mu.Lock()
		ok := done()
		news := p.news
		p.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-news:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Wait waits for the end and returns the exit code, which is 128+n when signal n ended the process.
func (p *Process) Wait(ctx context.Context) (code int, err error) {
	err = p.wait(ctx, func() bool { return p.ended })
	if err != nil {
		return 0, fmt.Errorf("%s still runs: %w", p, err)
	}
	if p.problem != "" {
		return 0, fmt.Errorf("%s: %s", p, p.problem)
	}
	return p.code, nil
}

// WaitLine waits for a line that matches, after WaitLine's last match. If the process ends without
// such a line, that is an error.
func (p *Process) WaitLine(ctx context.Context, re *regexp.Regexp) (string, error) {
	line := ""
	found := false
	err := p.wait(ctx, func() bool {
		for ; p.seen < len(p.lines) && !found; p.seen++ {
			line = p.lines[p.seen].Text
			found = re.MatchString(line)
		}
		return found || p.ended
	})
	if err != nil {
		return "", fmt.Errorf("%s has no line like %q: %w", p, re, err)
	}
	if found {
		return line, nil
	}
	_, err = p.Wait(ctx)
	if err != nil {
		return "", err
	}
	return "", fmt.Errorf("%s ended with %d and no line like %q", p, p.code, re)
}

// String returns the name for messages.
func (p *Process) String() string { return p.name }

// Lines returns the output so far. Of more than some MiB the rest is left out, as a last line says.
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

// Running says whether the process still runs.
func (p *Process) Running() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.ended
}

// host runs a command on the guest's host, which must succeed.
func (p *Process) host(ctx context.Context, args ...string) (string, error) {
	out, err := p.client.output(ctx, wire.Request{Args: args})
	if err != nil {
		return "", fmt.Errorf("%s: %w", p, err)
	}
	return out, nil
}

// Signal sends a signal to the process.
func (p *Process) Signal(ctx context.Context, s syscall.Signal) error {
	_, err := p.host(ctx, "kill", "-"+strconv.Itoa(int(s)), strconv.Itoa(p.PID))
	return err
}

// Kill ends all processes of a container with SIGKILL, unmounts its root and deletes the upper
// layer, as containerd does: a bind mount of the root is stale from then on. If the container has
// ended before, Kill only does the clean-up.
func (p *Process) Kill(ctx context.Context) error {
	args := []string{"sh", "-c", `kill -9 "$1" 2>/dev/null || true`, "sh", strconv.Itoa(p.PID)}
	if p.pod != nil {
		args = []string{"runc", "--root", runcState, "delete", "--force", p.ID}
	}
	_, err := p.host(ctx, args...)
	if err != nil {
		return err
	}
	err = p.wait(ctx, func() bool { return p.ended })
	if err != nil {
		return fmt.Errorf("%s: no news of its end: %w", p, err)
	}
	if p.pod == nil {
		return nil
	}
	_, err = p.host(ctx, "sh", "-c", removeContainer, "sh",
		bundleDir(p.ID), snapshots+"/"+p.ID, "/sys/fs/cgroup"+p.pod.cgroup(p.ID))
	return err
}

// removeContainer removes what is left of a container. runc gives a group up that is not empty soon
// after SIGKILL.
const removeContainer = `[ ! -d "$1" ] || rmdir "$1/rootfs" && rm -rf "$1" "$2"
while [ -d "$3" ]; do find "$3" -depth -type d -exec rmdir {} \; ; sleep 0.1; done 2>/dev/null`

// Exec runs a command in the container with the container's environment, as `kubectl exec` and
// kubelet's probes do. An exit code other than 0 is no error.
func (p *Process) Exec(ctx context.Context, args ...string) (Result, error) {
	return p.client.run(ctx, p.inside(args))
}

// Hold opens a file in the container, a device, and keeps it open until Kill. It returns when the
// file is open.
func (p *Process) Hold(ctx context.Context, path string) (*Process, error) {
	return p.client.hold(ctx, p.inside(holding(path)))
}

func (p *Process) inside(args []string) wire.Request {
	id := newID()
	file := bundleDir(p.ID) + "/" + id
	args = append([]string{"runc", "--root", runcState, "exec", "--pid-file", file, p.ID}, args...)
	return wire.Request{Process: id, PIDFile: file, Args: args}
}

func holding(path string) []string {
	return []string{"sh", "-c", `exec 3<>"$1" && echo open && exec sleep 100000`, "sh", path}
}

var opened = regexp.MustCompile("^open$")

func (c *client) hold(ctx context.Context, r wire.Request) (*Process, error) {
	p, err := c.start(ctx, r)
	if err != nil {
		return nil, err
	}
	_, err = p.WaitLine(ctx, opened)
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, tail(p.Output()))
	}
	return p, nil
}

// Termination returns the content of the container's /dev/termination-log.
func (p *Process) Termination(ctx context.Context) (string, error) {
	if p.pod == nil {
		return "", errors.New("only a container has a termination log")
	}
	return p.host(ctx, "cat", terminationLog(p.pod.PodUID, p.ID))
}
