package lab

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/lab/wire"
)

// Client is the test's end of the connection to an agent. Its methods may be called at the same
// time.
type Client struct {
	Patience  Patience // set before the first request
	port      net.Conn
	out       sync.Mutex // one request at a time
	mu        sync.Mutex
	processes map[string]*Process
	ready     chan string   // the kernel's release
	gone      chan struct{} // closed when the port is closed
}

// Connect talks to the agent at the other end of a port.
func Connect(port net.Conn) *Client {
	c := &Client{
		port:      port,
		processes: map[string]*Process{},
		ready:     make(chan string, 1),
		gone:      make(chan struct{}),
	}
	go c.receive()
	return c
}

// receive passes events on until the port is closed. Then all waits end.
func (c *Client) receive() {
	for events := json.NewDecoder(c.port); ; {
		var e wire.Event
		if err := events.Decode(&e); err != nil {
			close(c.gone)
			c.forget(fmt.Errorf("the guest is gone: %w", err))
			return
		}
		if e.Kind == wire.Ready {
			select {
			case c.ready <- e.Text:
			default: // nobody has waited for the one before
			}
			continue
		}
		c.mu.Lock()
		p := c.processes[e.Process]
		c.mu.Unlock()
		if p != nil {
			p.event(e)
		}
	}
}

// forget ends all waits for processes: they are lost.
func (c *Client) forget(why error) {
	c.mu.Lock()
	processes := c.processes
	c.processes = map[string]*Process{}
	c.mu.Unlock()
	for name := range processes {
		processes[name].event(wire.Event{Kind: wire.Failed, Text: why.Error()})
	}
}

// send asks for a process, within a limit.
func (c *Client) send(r wire.Request) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	c.out.Lock()
	defer c.out.Unlock()
	if err := c.port.SetWriteDeadline(time.Now().Add(c.Patience.Limit(callLimit))); err != nil {
		return err
	}
	_, err = c.port.Write(append(text, '\n'))
	return err
}

// start starts a process. Without a name in the request it gets one.
func (c *Client) start(t testing.TB, r wire.Request) (*Process, error) {
	t.Helper()
	r.Process = cmp.Or(r.Process, newID())
	r.Env = append(hostEnv(), r.Env...)
	p := &Process{
		ID:      r.Process,
		t:       t,
		client:  c,
		args:    r.Args,
		started: time.Now(),
		news:    make(chan struct{}),
	}
	c.mu.Lock()
	c.processes[p.ID] = p
	c.mu.Unlock()
	err := c.send(r)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", p, err)
	}
	if !p.wait(startLimit, func() bool { return p.PID != 0 || p.ended }) {
		return nil, fmt.Errorf("start %s: no answer from the guest within %s", p, startLimit)
	}
	if p.PID == 0 {
		return nil, fmt.Errorf("start %s: %s%s", p, p.problem, p.Output())
	}
	return p, nil
}

// Run runs a process to its end. An exit code other than 0 is no error.
func (c *Client) Run(t testing.TB, r wire.Request, limit time.Duration) (Result, error) {
	t.Helper()
	p, err := c.start(t, r)
	if err != nil {
		return Result{}, err
	}
	if err := p.end(limit); err != nil {
		return Result{}, err
	}
	return Result{r.Args, p.code, p.Output(), time.Since(p.started)}, nil
}

// output returns the output of a process that must end with 0.
func (c *Client) output(t testing.TB, r wire.Request, limit time.Duration) (string, error) {
	t.Helper()
	result, err := c.Run(t, r, limit)
	if err != nil {
		return "", err
	}
	if result.Code != 0 {
		return "", errors.New(result.String())
	}
	return result.Output, nil
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
	return fmt.Sprintf(
		"%.200s: exit code %d after %s\n%s",
		strings.Join(r.Args, " "),
		r.Code,
		r.Took.Round(time.Millisecond),
		tail(r.Output),
	)
}

// tail keeps messages readable: errors are at the end.
func tail(s string) string {
	const most = 8000
	if len(s) <= most {
		return s
	}
	return "[...]" + s[len(s)-most:]
}
