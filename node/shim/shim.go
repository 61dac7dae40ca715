// Package shim is process 1 of the container: it starts the same program a second time as the worker, passes signals on, reaps
// every orphan, and ends with the worker's exit code after ending what the worker left running.
//
// It is the only place that calls wait4(-1), so that the worker can use os/exec without losing its children to it. It knows
// nothing of drivers, holds no lock and writes no file: when it is killed, nothing is lost but the container.
package shim

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Marker is the environment variable that tells the worker what it is. Its value is the shim's process id: a marker that leaked
// into some other environment names a process that is not the reader's parent, and is ignored.
const Marker = "DRIVER_ENTRYPOINT_WORKER_OF"

// Options of Run. The zero value is what the image uses.
type Options struct {
	Exe   string        // program of the worker, default /proc/self/exe: this very program, even after its file was replaced
	Env   []string      // environment of the worker without the marker, default this process's own
	Proc  string        // where proc is mounted, default /proc
	Grace time.Duration // between SIGTERM and SIGKILL for what the worker left running, default 2 s
	Say   func(format string, args ...any)
}

// gone is how long processes may take to disappear after SIGKILL. One that hangs in the kernel is left behind: the container's
// end must not depend on it.
const gone = time.Second

func (o Options) withDefaults() Options {
	if o.Exe == "" {
		o.Exe = "/proc/self/exe"
	}
	if o.Env == nil {
		o.Env = os.Environ()
	}
	if o.Proc == "" {
		o.Proc = "/proc"
	}
	if o.Grace <= 0 {
		o.Grace = 2 * time.Second
	}
	if o.Say == nil {
		o.Say = func(string, ...any) {}
	}
	return o
}

// IsWorker says whether this process was started by Run, and removes the marker, so that what the worker starts does not
// inherit it. Call it once, first thing in main.
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
	// Started through /proc/self/exe its name would be "exe" in ps and among the holders of devices. Worth a try, not an error.
	_ = os.WriteFile("/proc/self/comm", []byte(filepath.Base(os.Args[0])), 0)
	return true
}

// Run starts the worker with argv (argv[0] included) and returns the exit code to end with: the worker's own, 128 plus the
// signal's number when a signal ended it, 1 when it could not be started. It must be called from the goroutine of main: the
// kernel sends the worker SIGTERM when the thread that started it ends, and this thread lasts as long as the process.
func Run(argv []string, o Options) (exitCode int) {
	o = o.withDefaults()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	runtime.GOMAXPROCS(1) // it only waits
	children, signals := make(chan os.Signal, 1), make(chan os.Signal, 128)
	signal.Notify(children, unix.SIGCHLD)
	signal.Notify(signals, forwarded()...)
	defer signal.Stop(children)
	defer signal.Stop(signals)
	if os.Getpid() != 1 {
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
			o.Say("become the reaper of orphans: prctl: %v; orphans of this container go to process 1 of the node", err)
		}
	}
	// The worker inherits this. With transparent huge pages each of the few small areas of an idle Go program takes 2 MB: 20 MB of
	// memory instead of 12. No more than a saving, so an error is none.
	_ = unix.Prctl(unix.PR_SET_THP_DISABLE, 1, 0, 0, 0)
	worker, err := start(argv, o)
	if err != nil {
		o.Say("start the worker %s: %v; nothing was done", o.Exe, err)
		return 1
	}
	debug.FreeOSMemory()
	status := forward(worker, children, signals)
	r := remains{proc: o.Proc, children: children, signals: signals}
	if left := r.end(o.Grace); len(left) > 0 {
		o.Say("processes that do not end after SIGKILL are left behind: %v", left)
	}
	return code(status)
}

// forwarded are the signals for the worker. Not SIGCHLD, which is for the shim, nor SIGURG and SIGPIPE, which the Go runtime
// and broken pipes cause; SIGKILL and SIGSTOP cannot be caught.
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

// start makes the worker leader of its own session: a Ctrl-C at a terminal reaches it once, through the shim, and not twice.
func start(argv []string, o Options) (int, error) {
	if len(argv) == 0 {
		return 0, errors.New("no arguments")
	}
	env := slices.DeleteFunc(slices.Clone(o.Env), func(v string) bool { return strings.HasPrefix(v, Marker+"=") })
	//nolint:gosec // the program is this one, its arguments are those that this one was started with
	pid, err := syscall.ForkExec(o.Exe, argv, &syscall.ProcAttr{
		Env:   append(env, fmt.Sprintf("%s=%d", Marker, os.Getpid())),
		Files: []uintptr{0, 1, 2},
		Sys:   &syscall.SysProcAttr{Setsid: true, Pdeathsig: unix.SIGTERM},
	})
	return pid, err
}

// forward passes signals on until the worker ends.
func forward(worker int, children, signals <-chan os.Signal) unix.WaitStatus {
	for {
		select {
		case s := <-signals:
			if n, ok := s.(syscall.Signal); ok {
				_ = unix.Kill(worker, n) // the worker is not reaped yet, so that this cannot reach another process
			}
		case <-children:
			if status, ended := reap(worker); ended {
				return status
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
			status, ended = s, true
		}
	}
}

func code(s unix.WaitStatus) int {
	if s.Signaled() {
		return 128 + int(s.Signal())
	}
	return s.ExitStatus()
}
