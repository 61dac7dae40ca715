//go:build linux

package chroot

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	innerName = "driver-build-step" // argv[0] of the inner process: the name in the output of ps
	configFD  = 3
	statusFD  = 4
	maxConfig = 16 << 20
)

// Init must be the first call of main, and of TestMain, in a program that uses a Runner. It returns
// at once, except in the process that a Runner starts: there it sets up the root, runs the command,
// and never returns.
func Init() {
	if os.Args[0] != innerName {
		return
	}
	syscall.Exit(innerMain()) // at once: no other code of this program may run in this process
}

// innerMain is process 1 of the step's pid namespace. Its exit code has no meaning: the status says
// everything.
func innerMain() int {
	runtime.LockOSThread() // capabilities belong to a thread: this one starts the command
	report := os.NewFile(statusFD, "status")
	st, err := innerStep()
	if err != nil {
		st = status{Setup: err.Error()}
	}
	if json.NewEncoder(report).Encode(st) != nil {
		return 1
	}
	return 0
}

func innerStep() (st status, err error) {
	if os.Getpid() != 1 {
		return st, errors.New("this is not process 1 of a pid namespace")
	}
	if err := closeOnExec(); err != nil {
		return st, err
	}
	var c config
	in := io.LimitReader(os.NewFile(configFD, "configuration"), maxConfig)
	if err := json.NewDecoder(in).Decode(&c); err != nil {
		return st, fmt.Errorf("read the configuration: %w", err)
	}
	if err := setUp(c); err != nil {
		return st, err
	}
	st.Ready = true
	if len(c.Args) == 0 {
		return st, nil
	}
	pid, err := startCommand(c)
	if err != nil {
		st.Start = fmt.Sprintf("start %s: %s", c.Args[0], explainStart(err))
		return st, nil
	}
	return reap(pid)
}

// startCommand starts the command. driver-build unpacked its program; a child of driver-build that
// does not execute its own program yet, for another step, may still have the file open for writing
// (ETXTBSY, "text file busy"; https://go.dev/issue/22315). That ends within milliseconds.
func startCommand(c config) (pid int, err error) {
	const tries, pause = 200, 10 * time.Millisecond
	for range tries {
		pid, err = syscall.ForkExec(
			c.Args[0],
			c.Args,
			&syscall.ProcAttr{Dir: "/", Env: c.Env, Files: []uintptr{0, 1, 2}},
		)
		if !errors.Is(err, unix.ETXTBSY) {
			break
		}
		<-time.After(pause)
	}
	return pid, err
}

func explainStart(err error) string {
	switch {
	case errors.Is(err, unix.ENOENT):
		return "no such file in the root, or the loader it needs is not there"
	case errors.Is(err, unix.ENOEXEC):
		return "the kernel does not know its format: is it for this architecture?"
	default:
		return err.Error()
	}
}

// closeOnExec hides from the command every descriptor that this process inherited, including those
// that the process which started driver-build left open in it.
func closeOnExec() error {
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return fmt.Errorf("list the open files: %w", err)
	}
	for _, d := range list {
		fd, _ := strconv.Atoi(d.Name()) // its name is a number
		if fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
	return nil
}

// reap waits for the command and, as process 1 must, for every orphan until then. When this process
// ends, the kernel kills the processes that still run in the background.
func reap(command int) (status, error) {
	for {
		var ws unix.WaitStatus
		pid, err := unix.Wait4(-1, &ws, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return status{}, fmt.Errorf("wait for the command: %w", err)
		case pid != command:
			continue
		case ws.Signaled():
			return status{Ready: true, Signal: int(ws.Signal())}, nil
		default:
			return status{Ready: true, Code: ws.ExitStatus()}, nil
		}
	}
}
