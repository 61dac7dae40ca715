package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/ci/lab/wire"
)

const (
	startLimit = 60 * time.Second // for the setup of a container
	killLimit  = 20 * time.Second // for SIGKILL to take effect
	// pipeLimit is how long the agent still reads output of processes that outlive the first one.
	pipeLimit = 2 * time.Second
)

// process is a process that was started: a single one, or the first of a container.
type process struct {
	spec   wire.Spec
	cmd    *exec.Cmd
	group  *os.File // its cgroup's folder until it has been started
	cgroup string   // "" for a process on the host
	root   string   // mount point of the container's root file system, "" when it has none of its own
	done   chan struct{}
	once   sync.Once // several places unmount the root; only the first call does it
	clean  error
}

// start begins a process and returns its PID as the host sees it.
func (s *server) start(spec wire.Spec) (int, error) {
	if len(spec.Args) == 0 {
		return 0, errors.New("start: no command")
	}
	p := &process{spec: spec, done: make(chan struct{})}
	if err := s.prepare(p); err != nil {
		return 0, errors.Join(err, p.cleanup(true))
	}
	output, input, err := os.Pipe()
	if err != nil {
		return 0, errors.Join(err, p.cleanup(true))
	}
	p.cmd.Stdout, p.cmd.Stderr = input, input
	err = p.launch()
	if p.group != nil {
		p.group.Close()
	}
	if err != nil {
		_, _ = input.Close(), output.Close()
		return 0, errors.Join(err, p.cleanup(true))
	}
	_ = input.Close() // only this copy of the descriptor; nothing was written through it
	s.mu.Lock()
	s.processes[spec.ID] = p
	s.mu.Unlock()
	go s.follow(p, output)
	return p.cmd.Process.Pid, nil
}

// launch starts the command. A container's setup reports errors through a pipe that exec closes: no data
// means success.
func (p *process) launch() error {
	if p.spec.Image == "" && p.spec.Join == "" {
		return p.cmd.Start()
	}
	spec, err := json.Marshal(p.spec)
	if err != nil {
		return err
	}
	specRead, specWrite, err := os.Pipe()
	if err != nil {
		return err
	}
	defer specRead.Close()
	report, reportWrite, err := os.Pipe()
	if err != nil {
		return errors.Join(err, specWrite.Close())
	}
	defer report.Close()
	p.cmd.ExtraFiles = []*os.File{specRead, reportWrite} // descriptors 3 and 4
	err = p.cmd.Start()
	_ = reportWrite.Close() // the child has its own copy
	if err != nil {
		return errors.Join(err, specWrite.Close())
	}
	_, err = specWrite.Write(spec)
	if err := errors.Join(err, specWrite.Close(), report.SetReadDeadline(time.Now().Add(startLimit))); err != nil {
		return errors.Join(err, p.cmd.Process.Kill(), p.cmd.Wait())
	}
	text, err := io.ReadAll(io.LimitReader(report, 64<<10))
	if err == nil && len(text) == 0 {
		return nil
	}
	return errors.Join(fmt.Errorf("set up %s: %s", p.spec.Name, text), err, p.cmd.Process.Kill(), ignoreExit(p.cmd.Wait()))
}

func ignoreExit(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return nil
	}
	return err
}

// follow reports the process's lines until the output ends, and then the exit.
func (s *server) follow(p *process, output *os.File) {
	read := make(chan struct{})
	go func() {
		defer close(read)
		s.lines(p.spec.ID, output)
	}()
	err := ignoreExit(p.cmd.Wait())
	if p.root != "" { // like runc, kill what is left when the container has no PID namespace of its own
		err = errors.Join(err, p.cleanup(false))
	}
	_ = output.SetReadDeadline(time.Now().Add(pipeLimit)) // pipes have deadlines
	<-read
	_ = output.Close()
	m := wire.Message{Event: wire.EventExit, Process: p.spec.ID, Nanos: time.Now().UnixNano(), Code: code(p.cmd.ProcessState)}
	if err != nil {
		m.Error = err.Error()
	}
	s.send(m)
	close(p.done)
}

func (s *server) lines(id string, r io.Reader) {
	in := bufio.NewReaderSize(r, wire.MaxText)
	for {
		line, err := in.ReadSlice('\n') // a line longer than the buffer comes in parts
		if n := len(line); n > 0 {
			if line[n-1] == '\n' {
				line = line[:n-1]
			}
			s.send(wire.Message{Event: wire.EventLine, Process: id, Nanos: time.Now().UnixNano(), Text: string(line)})
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return
		}
	}
}

func code(state *os.ProcessState) int {
	status, ok := state.Sys().(syscall.WaitStatus)
	if ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return state.ExitCode()
}

func (p *process) signal(n unix.Signal) error {
	select {
	case <-p.done:
		return errors.New("the process has ended")
	default:
		return p.cmd.Process.Signal(n)
	}
}

// destroy kills every process of a container and removes its root with the upper layer, as containerd does
// when the pod is deleted.
func (p *process) destroy() error {
	select {
	case <-p.done:
	default:
		_ = p.cmd.Process.Kill() // it may end at this moment
	}
	err := p.cleanup(true)
	select {
	case <-p.done:
	case <-time.After(killLimit):
		err = errors.Join(err, fmt.Errorf("pid %d still lives %s after SIGKILL: it hangs in the kernel", p.cmd.Process.Pid, killLimit))
	}
	return err
}
