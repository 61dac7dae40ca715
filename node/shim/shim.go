// Package shim is process 1 of the container. It starts the same program a second time as the
// worker, passes signals on and reaps every orphan. When the worker has ended, the shim ends the
// worker's remaining processes and exits with the worker's exit code.
//
// Only the shim calls wait4(-1), so that the worker can use os/exec without losing its children to
// such a call. The shim knows nothing of drivers, holds no lock and writes no file: when it is
// killed, only the container is lost.
package shim

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Marker is the environment variable that marks a process as the worker. Its value is the shim's
// process id: a marker that leaked into another environment names a process that is not the
// reader's parent, and is ignored.
const Marker = "DRIVER_ENTRYPOINT_WORKER_OF"

// Options of Run. The zero value is what the image uses.
type Options struct {
	// Exe is the program of the worker, default /proc/self/exe: this program, even after its file
	// was replaced.
	Exe string
	// time between SIGTERM and SIGKILL for the worker's remaining processes, default 2 s
	Grace time.Duration
	Log   *slog.Logger
	// Signals has the signals that came before Run; nil: none.
	Signals chan os.Signal
}

// killTimeout is how long processes may take to disappear after SIGKILL. A process that hangs in
// the kernel is left behind: the container's end must not depend on it.
const killTimeout = time.Second

// IsWorker says whether Run started this process. It removes the marker, so that the worker's
// children do not inherit it. Call it once, before main reads the environment.
func IsWorker() bool {
	value, found := os.LookupEnv(Marker)
	if !found {
		return false
	}
	if err := os.Unsetenv(Marker); err != nil {
		return false
	}
	if value != strconv.Itoa(os.Getppid()) {
		return false
	}
	// A program that was started through /proc/self/exe is named "exe" in ps and in the list of
	// device holders. A failure to rename it is no error.
	_ = os.WriteFile("/proc/self/comm", []byte(filepath.Base(os.Args[0])), 0)
	return true
}

// Run starts the worker with argv (argv[0] included) and returns the exit code for this process:
// the worker's own, 128 plus the signal's number when a signal ended the worker, 1 when the worker
// could not be started. It is 0 when a signal to stop ended the worker before that handled signals:
// nothing had begun. Call Run from the goroutine of main: the kernel sends the worker SIGTERM when
// the thread that started it ends, and the main thread lasts as long as the process.
func Run(argv []string, o Options) (exitCode int) {
	o.Exe = cmp.Or(o.Exe, "/proc/self/exe")
	o.Grace = cmp.Or(o.Grace, 2*time.Second)
	if o.Signals == nil {
		o.Signals = make(chan os.Signal, 128)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	runtime.GOMAXPROCS(1) // the shim only waits
	children := make(chan os.Signal, 1)
	signals := o.Signals
	signal.Notify(children, unix.SIGCHLD)
	signal.Notify(signals, forwarded()...)
	defer signal.Stop(children)
	defer signal.Stop(signals)
	if os.Getpid() != 1 {
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
			o.Log.Warn(
				"cannot become the reaper of orphans, they go to process 1 of the node",
				"error",
				err,
			)
		}
	}
	// The worker inherits this setting. With transparent huge pages each of the few small memory
	// areas of an idle Go program takes 2 MB: 20 MB of memory in total instead of 12 MB. An error
	// is ignored: the setting only saves memory.
	_ = unix.Prctl(unix.PR_SET_THP_DISABLE, 1, 0, 0, 0)
	worker, err := start(argv, o)
	if err != nil {
		o.Log.Error("cannot start the worker, nothing was done", "path", o.Exe, "error", err)
		return 1
	}
	FreeMemory()
	status, early := forward(worker, children, signals)
	r := orphans{children, signals}
	if left := r.end(o.Grace); len(left) > 0 {
		o.Log.Warn("processes that do not end after SIGKILL are left behind", "pids", left)
	}
	if early {
		return 0
	}
	return code(status)
}

// forwarded lists the signals that go to the worker. It leaves out SIGCHLD, which is for the shim,
// SIGURG and SIGPIPE, which the Go runtime and broken pipes cause, and SIGKILL and SIGSTOP, which
// cannot be caught.
func forwarded() []os.Signal {
	skip := []syscall.Signal{unix.SIGCHLD, unix.SIGURG, unix.SIGPIPE, unix.SIGKILL, unix.SIGSTOP}
	var all []os.Signal
	for s := syscall.Signal(1); s <= 64; s++ {
		if !slices.Contains(skip, s) {
			all = append(all, s)
		}
	}
	return all
}

// start makes the worker the leader of a session of its own, so that a Ctrl-C at a terminal reaches
// it once (through the shim) and not twice.
func start(argv []string, o Options) (int, error) {
	if len(argv) == 0 {
		return 0, errors.New("no arguments")
	}
	env := slices.DeleteFunc(
		os.Environ(),
		func(v string) bool { return strings.HasPrefix(v, Marker+"=") },
	)
	//nolint:gosec // it starts this program again with the same arguments
	pid, err := syscall.ForkExec(o.Exe, argv, &syscall.ProcAttr{
		Env:   append(env, fmt.Sprintf("%s=%d", Marker, os.Getpid())),
		Files: []uintptr{0, 1, 2},
		Sys:   &syscall.SysProcAttr{Setsid: true, Pdeathsig: unix.SIGTERM},
	})
	return pid, err
}

// forward passes signals on until the worker ends. early says that one of them to stop ended it,
// which a worker that handles signals survives.
func forward(worker int, children, signals <-chan os.Signal) (status unix.WaitStatus, early bool) {
	stops := map[syscall.Signal]bool{}
	for {
		select {
		case s := <-signals:
			if n, ok := s.(syscall.Signal); ok {
				stops[n] = n == unix.SIGTERM || n == unix.SIGINT || n == unix.SIGHUP ||
					n == unix.SIGQUIT
				// the worker is not reaped yet, so the number still belongs to it
				_ = unix.Kill(worker, n)
			}
		case <-children:
			if status, ended := reap(worker); ended {
				return status, status.Signaled() && stops[status.Signal()]
			}
		}
	}
}

// reap collects every child that has ended, and says whether the worker was among them.
func reap(worker int) (status unix.WaitStatus, ended bool) {
	for {
		var s unix.WaitStatus
		pid, err := unix.Wait4(-1, &s, unix.WNOHANG, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || pid <= 0 {
			return status, ended
		}
		if pid == worker && (s.Exited() || s.Signaled()) {
			status = s
			ended = true
		}
	}
}

func code(s unix.WaitStatus) int {
	if s.Signaled() {
		return 128 + int(s.Signal())
	}
	return s.ExitStatus()
}
