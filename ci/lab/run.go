package lab

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/lab/wire"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

// Exec runs a command in the container with the container's environment, as `kubectl exec` and kubelet's
// probes do.
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

// Termination returns the content of the container's /dev/termination-log.
func (p *Process) Termination() string {
	p.t.Helper()
	var f wire.File
	require.NoError(p.t, p.client.call(wire.OpRead, wire.File{Path: terminationLog(p.spec.PodUID, p.ID)}, &f, callLimit))
	return string(f.Data)
}

func terminationLog(pod, id string) string {
	return "/var/lib/kubelet/pods/" + pod + "/containers/termination-log-" + id[:12]
}

// Result is the result of a command.
type Result struct {
	Args   []string
	Code   int
	Output string // stdout and stderr
	Took   time.Duration
}

// String returns the result for messages.
func (r Result) String() string {
	return fmt.Sprintf("%s: exit code %d after %s\n%s", strings.Join(r.Args, " "), r.Code, r.Took.Round(time.Millisecond), tail(r.Output))
}

// start starts a process. It chooses the process's ID, so that no event can arrive before the ID is known.
func start(t testing.TB, c *client, spec wire.Spec) *Process {
	t.Helper()
	if spec.ID == "" {
		spec.ID = newID()
	}
	p := &Process{ID: spec.ID, t: t, client: c, spec: spec, started: time.Now(), news: make(chan struct{})}
	c.add(p)
	var answer wire.Started
	require.NoErrorf(t, c.call(wire.OpStart, spec, &answer, 2*callLimit), "start %s", strings.Join(spec.Args, " "))
	p.PID = answer.PID
	return p
}

func run(t testing.TB, c *client, spec wire.Spec, limit time.Duration) Result {
	t.Helper()
	p := start(t, c, spec)
	code, output := p.Wait(limit)
	return Result{spec.Args, code, output, time.Since(p.started)}
}

// tail keeps messages readable: errors are at the end.
func tail(s string) string {
	const most = 8000
	if len(s) <= most {
		return s
	}
	return "[...]" + s[len(s)-most:]
}
