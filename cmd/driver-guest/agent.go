package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/images/rehearse/wire"
)

// outputLimit is how long the agent still reads output of processes that outlive the first one.
const outputLimit = 2 * time.Second

// serveStdin answers at the virtio-serial port, which is standard input for both directions.
func serveStdin() error {
	var uts unix.Utsname
	a := &agent{port: os.Stdin}
	_ = unix.Uname(&uts) // it knows no other failure than a bad address
	a.send(wire.Event{Kind: wire.Ready, Text: unix.ByteSliceToString(uts.Release[:])})
	return a.serve()
}

type agent struct {
	port io.ReadWriter
	out  sync.Mutex // one event at a time
}

// serve answers requests until the port fails. The guest ends with the agent, so nothing waits for
// processes.
func (a *agent) serve() error {
	for requests := json.NewDecoder(a.port); ; {
		var r wire.Request
		if err := requests.Decode(&r); err != nil {
			return fmt.Errorf("read requests: %w", err)
		}
		go func() {
			if err := a.run(r); err != nil {
				a.send(wire.Event{Kind: wire.Failed, Process: r.Process, Text: err.Error()})
			}
		}()
	}
}

// send writes one event. Errors are ignored: they mean that the other machine has closed the port.
func (a *agent) send(e wire.Event) {
	e.Nanos = time.Now().UnixNano()
	text, err := json.Marshal(e)
	if err != nil {
		return
	}
	a.out.Lock()
	defer a.out.Unlock()
	_, _ = a.port.Write(append(text, '\n'))
}

// run runs a process until it ends.
func (a *agent) run(r wire.Request) error {
	switch r.Power {
	case wire.Off:
		powerOff()
	case wire.Reboot:
		restart(unix.LINUX_REBOOT_CMD_RESTART)
	}
	if len(r.Args) == 0 {
		return errors.New("no command")
	}
	output, input, err := os.Pipe()
	if err != nil {
		return err
	}
	defer output.Close()
	cmd := exec.Command(r.Args[0], r.Args[1:]...)
	cmd.Env = r.Env
	cmd.Dir = "/"
	cmd.Stdin = bytes.NewReader(r.Input)
	cmd.Stdout = input
	cmd.Stderr = input
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = cmd.Start()
	_ = input.Close() // only this copy of the descriptor
	if err != nil {
		return err
	}
	read := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(read)
		a.lines(r.Process, output)
	}()
	go func() {
		defer close(ended)
		_ = cmd.Wait() // its state says how it ended
	}()
	if pid := pidOf(r.PIDFile, cmd.Process.Pid, ended); pid != 0 {
		a.send(wire.Event{Kind: wire.Started, Process: r.Process, PID: pid})
	}
	<-ended
	_ = output.SetReadDeadline(time.Now().Add(outputLimit)) // pipes have deadlines
	<-read
	a.send(wire.Event{Kind: wire.Exited, Process: r.Process, Code: code(cmd.ProcessState)})
	return nil
}

// pidOf waits for the PID in a file, and returns 0 if the process ended without it. No file means
// the process's own.
func pidOf(file string, own int, ended <-chan struct{}) int {
	if file == "" {
		return own
	}
	for last := false; ; {
		text, _ := os.ReadFile(file) //nolint:errcheck // it is not there yet
		pid, _ := strconv.Atoi(string(bytes.TrimSpace(text)))
		if pid > 0 {
			return pid
		}
		if last {
			return 0
		}
		select {
		case <-ended:
			last = true
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func (a *agent) lines(process string, r io.Reader) {
	for in := bufio.NewReaderSize(r, wire.MaxText); ; {
		line, err := in.ReadSlice('\n') // a line longer than the buffer comes in parts
		if len(line) > 0 {
			a.send(
				wire.Event{
					Kind:    wire.Line,
					Process: process,
					Text:    string(bytes.TrimSuffix(line, []byte("\n"))),
				},
			)
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return
		}
	}
}

func code(state *os.ProcessState) int {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return state.ExitCode()
}
