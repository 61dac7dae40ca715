// Package qemu runs QEMU for the guests of ci/lab: a process with sockets to the test and with simulated GPUs, which
// ends with the test. What boots in it, and over which ports the test talks to it, is known to package lab.
package qemu

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/ci/testkit/require"
)

// FirstFD is the file descriptor in QEMU of the first of Start's files.
const FirstFD = 3

// Process is a running QEMU.
type Process struct {
	Done chan struct{}
	Err  error           // of its end, after Done
	Said strings.Builder // its own messages; read them after Done
	gpus []*GPU
	cmd  *exec.Cmd
}

// Start starts QEMU with open files, which the caller closes.
func Start(args []string, files ...*os.File) (*Process, error) {
	p := &Process{Done: make(chan struct{}), cmd: exec.Command("qemu-system-x86_64", args...)}
	p.cmd.ExtraFiles, p.cmd.Stdout, p.cmd.Stderr, p.cmd.WaitDelay = files, &p.Said, &p.Said, time.Second
	// QEMU ends with the test even if the test is killed. It has a session of its own: a signal from the
	// keyboard is for the test.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setsid: true}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		p.Err = p.cmd.Wait()
		close(p.Done)
	}()
	return p, nil
}

// Own makes Stop end a GPU that QEMU uses.
func (p *Process) Own(g *GPU) { p.gpus = append(p.gpus, g) }

// Kill ends QEMU at once, as power loss does. It does not wait.
func (p *Process) Kill() error { return p.cmd.Process.Kill() }

// Stop waits for QEMU's end, kills it after the limit, and ends the GPUs.
func (p *Process) Stop(limit time.Duration) error {
	var err error
	select {
	case <-p.Done:
	case <-time.After(limit):
		err = errors.Join(fmt.Errorf("it did not power off within %s and was killed", limit), p.Kill())
		<-p.Done
	}
	for _, g := range p.gpus {
		err = errors.Join(err, g.Close())
	}
	p.gpus = nil
	return err
}

// ReadConsole returns the text of a console's log.
func ReadConsole(file string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	return strings.ReplaceAll(string(text), "\r", "")
}

// SocketPair returns this process's end and QEMU's.
func SocketPair(t testing.TB) (*net.UnixConn, *os.File) {
	t.Helper()
	fds := require.Value(unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0))(t)
	mine, theirs := os.NewFile(uintptr(fds[0]), "socket"), os.NewFile(uintptr(fds[1]), "socket")
	conn, err := net.FileConn(mine)
	require.NoError(t, errors.Join(err, mine.Close()))
	unixConn, ok := conn.(*net.UnixConn)
	if !ok {
		t.Fatalf("socket pair: %T", conn)
	}
	return unixConn, theirs
}
