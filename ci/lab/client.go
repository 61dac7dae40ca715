package lab

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/driver-container/driver-container/ci/lab/wire"
)

// client is the host's end of the connection to an agent. Its methods may be called at the same time.
type client struct {
	patience  Patience // set before the first request
	port      io.ReadWriteCloser
	out       sync.Mutex // one request at a time
	mu        sync.Mutex
	next      uint64
	waiting   map[uint64]chan wire.Message
	processes map[string]*Process
	ready     chan string   // the kernel's release, once
	gone      chan struct{} // closed when the port is closed
	cause     error         // the reason, valid after gone
}

func newClient(port io.ReadWriteCloser) *client {
	c := &client{port: port, waiting: map[uint64]chan wire.Message{}, processes: map[string]*Process{}, ready: make(chan string, 1), gone: make(chan struct{})}
	go c.receive()
	return c
}

// receive distributes messages until the port is closed. Then all calls that wait return with an error.
func (c *client) receive() {
	lines := bufio.NewReaderSize(c.port, 1<<20)
	var err error
	for {
		var line []byte
		if line, err = readLine(lines); err != nil {
			break
		}
		var m wire.Message
		if err = json.Unmarshal(line, &m); err != nil {
			err = fmt.Errorf("the guest's agent sent %.80q: %w", line, err)
			break
		}
		c.dispatch(m)
	}
	c.mu.Lock()
	c.cause = err
	close(c.gone)
	processes := c.processes
	c.mu.Unlock()
	for _, p := range processes {
		p.lost()
	}
}

// readLine reads one message of at most wire.MaxLine bytes.
func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case err == nil:
			return line, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		case len(line) > wire.MaxLine:
			return nil, fmt.Errorf("a message of the guest's agent is longer than %d bytes", wire.MaxLine)
		}
	}
}

func (c *client) dispatch(m wire.Message) {
	c.mu.Lock()
	waiter := c.waiting[m.ID]
	delete(c.waiting, m.ID)
	p := c.processes[m.Process]
	c.mu.Unlock()
	switch {
	case m.ID != 0:
		if waiter != nil {
			waiter <- m // the channel has room
		}
	case m.Event == wire.EventReady:
		select {
		case c.ready <- m.Text:
		default: // sent twice
		}
	case p != nil:
		p.event(m)
	}
}

// errGone means that the guest ended during a wait for it.
var errGone = errors.New("the guest is gone")

// call sends a request and waits for the answer. answer may be nil.
func (c *client) call(op string, body, answer any, limit time.Duration) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	reply := make(chan wire.Message, 1)
	c.mu.Lock()
	c.next++
	id := c.next
	c.waiting[id] = reply
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(c.waiting, id)
		c.mu.Unlock()
	}()
	timer := time.NewTimer(c.patience.Limit(limit))
	defer timer.Stop()
	sent := make(chan error, 1)
	go func() { sent <- c.send(wire.Request{ID: id, Op: op, Body: text}) }() // ends at the latest when the port is closed
	for {
		select {
		case err := <-sent:
			if err != nil {
				return fmt.Errorf("%s: %w: %w", op, errGone, err)
			}
			sent = nil
		case m := <-reply:
			if m.Error != "" {
				return fmt.Errorf("%s: %s", op, m.Error)
			}
			if answer == nil {
				return nil
			}
			return json.Unmarshal(m.Body, answer)
		case <-c.gone:
			return fmt.Errorf("%s: %w: %w", op, errGone, c.cause)
		case <-timer.C:
			return fmt.Errorf("%s: no answer from the guest within %s", op, limit)
		}
	}
}

func (c *client) send(r wire.Request) error {
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	c.out.Lock()
	defer c.out.Unlock()
	_, err = c.port.Write(append(line, '\n'))
	return err
}

func (c *client) add(p *Process) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.processes[p.ID] = p
}

// forget ends all waits for processes with an error: the guest restarts, and its processes are lost.
func (c *client) forget() {
	c.mu.Lock()
	processes := c.processes
	c.processes = map[string]*Process{}
	c.mu.Unlock()
	for _, p := range processes {
		p.lost()
	}
}
