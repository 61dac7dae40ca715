package guest

import (
	"bufio"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/driver-container/driver-container/distros/escape"
	"github.com/driver-container/driver-container/images/rehearse/wire"
)

// maxEvent bounds one event, in bytes: JSON needs six for a byte that is not printable.
const maxEvent = 6*wire.MaxText + 1<<10

// client is this machine's end of the connection to driver-guest.
type client struct {
	port      net.Conn
	out       sync.Mutex // one request at a time
	mu        sync.Mutex
	processes map[string]*Process
	ready     chan string   // the kernel's release
	gone      chan struct{} // closed when the port is closed
	err       error         // why, after gone
}

// connect talks to driver-guest at the other end of a port. end says why the port was closed.
func connect(port net.Conn, end func() error) *client {
	c := &client{
		port:      port,
		processes: map[string]*Process{},
		ready:     make(chan string, 1),
		gone:      make(chan struct{}),
	}
	go func() {
		c.err = c.receive(port)
		if c.err == nil {
			c.err = end()
		}
		close(c.gone)
		c.forget(c.lost())
		_ = port.Close() // after nonsense too: nothing is read any more
	}()
	return c
}

// receive passes events on until the port is closed. An error is about what is no event.
func (c *client) receive(port io.Reader) error {
	lines := bufio.NewScanner(port)
	lines.Buffer(nil, maxEvent)
	for lines.Scan() {
		var e wire.Event
		err := json.Unmarshal(lines.Bytes(), &e)
		if err != nil {
			return fmt.Errorf("it sent %s, which is no event: %w", escape.Line(fmt.Sprintf("%.100s", lines.Bytes())), err)
		}
		c.pass(e)
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return fmt.Errorf("it sent more than an event can have: %w", lines.Err())
	}
	return nil
}

func (c *client) pass(e wire.Event) {
	if e.Kind == wire.Ready {
		select {
		case c.ready <- escape.Line(fmt.Sprintf("%.100s", e.Text)):
		default: // nothing has waited for the one before
		}
		return
	}
	c.mu.Lock()
	p := c.processes[e.Process]
	if e.Kind == wire.Exited || e.Kind == wire.Failed {
		delete(c.processes, e.Process)
	}
	c.mu.Unlock()
	if p != nil { // after a restart there are events of processes that are lost
		p.event(e)
	}
}

// forget ends all waits for processes: they are lost.
func (c *client) forget(why error) {
	c.mu.Lock()
	processes := c.processes
	c.processes = map[string]*Process{}
	c.mu.Unlock()
	for _, p := range processes {
		p.event(wire.Event{Kind: wire.Failed, Text: why.Error()})
	}
}

// send writes a request. After a part of one nothing can follow, so the port is closed.
func (c *client) send(ctx context.Context, r wire.Request) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	c.out.Lock()
	defer c.out.Unlock()
	err = context.Cause(ctx)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = c.port.Close() })
	defer stop()
	_, err = c.port.Write(append(text, '\n'))
	if err != nil {
		_ = c.port.Close()
		<-c.gone
		return cmp.Or(context.Cause(ctx), c.lost())
	}
	return nil
}

// lost says why the guest is gone.
func (c *client) lost() error { return fmt.Errorf("the guest is gone: %w", c.err) }

// start starts a process and returns when it runs. Without a name in the request it gets one.
func (c *client) start(ctx context.Context, r wire.Request) (*Process, error) {
	r.Process = cmp.Or(r.Process, newID())
	r.Env = append(hostEnv(), r.Env...)
	p := &Process{
		ID:      r.Process,
		client:  c,
		name:    title(r.Args),
		started: time.Now(),
		news:    make(chan struct{}),
	}
	c.mu.Lock()
	c.processes[p.ID] = p
	c.mu.Unlock()
	err := c.send(ctx, r)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", p, err)
	}
	select {
	case <-c.gone: // forget may have come before the process was listed
		return nil, fmt.Errorf("start %s: %w", p, c.lost())
	default:
	}
	pid := 0
	err = p.wait(ctx, func() bool {
		pid = p.PID
		return pid != 0 || p.ended
	})
	if err != nil {
		return nil, fmt.Errorf("start %s: no answer from the guest: %w", p, err)
	}
	if pid == 0 {
		return nil, fmt.Errorf("start %s: %s%s", p, p.problem, tail(p.Output()))
	}
	return p, nil
}

// run runs a process to its end. An exit code other than 0 is no error.
func (c *client) run(ctx context.Context, r wire.Request) (Result, error) {
	p, err := c.start(ctx, r)
	if err != nil {
		return Result{}, err
	}
	code, err := p.Wait(ctx)
	if err != nil {
		return Result{}, err
	}
	return Result{r.Args, code, p.Output(), time.Since(p.started)}, nil
}

// output returns the output of a process that must end with 0.
func (c *client) output(ctx context.Context, r wire.Request) (string, error) {
	result, err := c.run(ctx, r)
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
	Code   int    // 128+n if signal n ended it
	Output string // stdout and stderr, escaped
	Took   time.Duration
}

// String returns the result for messages.
func (r Result) String() string {
	took := r.Took.Round(time.Millisecond)
	return fmt.Sprintf("%s: exit code %d after %s\n%s", title(r.Args), r.Code, took, tail(r.Output))
}

// title names a command in messages: of a script its first line.
func title(args []string) string {
	first, _, _ := strings.Cut(strings.Join(args, " "), "\n")
	return fmt.Sprintf("%.100s", first)
}

func hostEnv() []string { return []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root"} }

func newID() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
