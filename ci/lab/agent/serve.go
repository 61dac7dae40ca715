package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/ci/lab/wire"
)

// server answers requests. Every request has a goroutine. The guest ends with the agent, so nothing waits for
// the goroutines.
type server struct {
	out       sync.Mutex // serializes lines
	port      io.Writer
	mu        sync.Mutex
	processes map[string]*process
}

// rebootPause gives the answer time to reach the host.
const rebootPause = 100 * time.Millisecond

func serve() error {
	port, err := openPort()
	if err != nil {
		return err
	}
	var uts unix.Utsname
	if err := unix.Uname(&uts); err != nil {
		return err
	}
	s := &server{port: port, processes: map[string]*process{}}
	s.send(wire.Message{Event: wire.EventReady, Text: unix.ByteSliceToString(uts.Release[:])})
	return s.loop(port)
}

func (s *server) loop(port io.Reader) error {
	lines := bufio.NewReaderSize(port, 1<<20)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return fmt.Errorf("read requests: %w", err)
		}
		var r wire.Request
		if err := json.Unmarshal(line, &r); err != nil {
			return fmt.Errorf("request %.80q: %w", line, err)
		}
		go func() {
			body, err := s.answer(r)
			m := wire.Message{ID: r.ID}
			if err != nil {
				m.Error = err.Error()
			} else if m.Body, err = json.Marshal(body); err != nil {
				m.Error = err.Error()
			}
			s.send(m)
		}()
	}
}

// openPort finds the port by its name: the guest has no udev.
func openPort() (*os.File, error) {
	deadline := time.Now().Add(diskWait)
	for time.Now().Before(deadline) {
		matches, _ := filepath.Glob("/sys/class/virtio-ports/*/name") // the pattern is valid
		for _, m := range matches {
			if name, err := os.ReadFile(m); err == nil && strings.TrimSpace(string(name)) == wire.Port {
				return os.OpenFile("/dev/"+filepath.Base(filepath.Dir(m)), os.O_RDWR, 0)
			}
		}
		pause(10 * time.Millisecond)
	}
	return nil, fmt.Errorf("no virtio port is named %s", wire.Port)
}

// send writes one message. Errors are ignored: they mean that the host has closed the port.
func (s *server) send(m wire.Message) {
	line, err := json.Marshal(m)
	if err != nil {
		return
	}
	s.out.Lock()
	defer s.out.Unlock()
	_, _ = s.port.Write(append(line, '\n'))
}

func (s *server) answer(r wire.Request) (any, error) {
	switch r.Op {
	case wire.OpMount:
		return nil, with(r, func(m wire.Mount) error { return mountDisk(m.Serial, m.Path, m.Type) })
	case wire.OpStart:
		var started wire.Started
		err := with(r, func(spec wire.Spec) (err error) {
			started.PID, err = s.start(spec)
			return err
		})
		return started, err
	case wire.OpSignal:
		return nil, with(r, func(sig wire.Signal) error {
			p, err := s.process(sig.Process)
			if err != nil {
				return err
			}
			return p.signal(unix.Signal(sig.Number))
		})
	case wire.OpDestroy:
		return nil, with(r, func(sig wire.Signal) error {
			p, err := s.process(sig.Process)
			if err != nil {
				return err
			}
			return p.destroy()
		})
	case wire.OpReboot:
		unix.Sync()
		time.AfterFunc(rebootPause, func() { _ = unix.Reboot(unix.LINUX_REBOOT_CMD_RESTART) })
		return nil, nil
	case wire.OpPowerOff:
		unix.Sync()
		return nil, unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
	default:
		return fileOp(r)
	}
}

// with decodes a request's body.
func with[T any](r wire.Request, do func(T) error) error {
	var v T
	if err := json.Unmarshal(r.Body, &v); err != nil {
		return fmt.Errorf("%s: %w", r.Op, err)
	}
	return do(v)
}

func (s *server) process(id string) (*process, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.processes[id]; p != nil {
		return p, nil
	}
	return nil, errors.New("no process " + id)
}
