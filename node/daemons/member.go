package daemons

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/distros/bounded"
	"github.com/driver-container/driver-container/kmod"
)

// watchInterval is how often a process is checked that is no child of this one.
const watchInterval = time.Second

// member is one process of a daemon. Send signals only through its methods: they never reach
// another process that got the same number later.
type member struct {
	pid   int
	begun string        // start time in clock ticks since boot, as in /proc/PID/stat
	child bool          // a child of this process, which therefore reaps it
	done  chan struct{} // closed when the process has ended
	quit  chan struct{} // closed by unwatch; nil of a child
	once  sync.Once
	how   string // how it ended; valid after done

	mu     sync.Mutex // orders signals and reaping
	reaped bool
}

// startMember starts a child as leader of its own process group. It sets no parent-death signal,
// because that would be tied to the thread that starts the program. When this process dies, the
// shim gets the orphans and ends them.
func startMember(cmd *exec.Cmd) (*member, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	m := &member{pid: cmd.Process.Pid, child: true, done: make(chan struct{})}
	st, _ := stat(m.pid)
	m.begun = st.Begun // at worst that of a zombie: only the goroutine below reaps it
	go m.reap(cmd)
	return m, nil
}

// reap waits for a child and kills the rest of its group. Until the child is reaped its number
// cannot belong to another process.
func (m *member) reap(cmd *exec.Cmd) {
	for errors.Is(unix.Waitid(unix.P_PID, m.pid, nil, unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
		continue
	}
	m.mu.Lock()
	_ = unix.Kill(-m.pid, unix.SIGKILL)
	_ = cmd.Wait() // the result is in ProcessState
	m.reaped = true
	m.how = "it ended with " + cmd.ProcessState.String()
	m.mu.Unlock()
	close(m.done)
}

// errNotRunning says that the pid file names no process that could be the daemon.
var errNotRunning = errors.New("no such daemon is running")

// fromPIDFile finds the daemon that a pid file names. The file may be from a daemon that has ended,
// and another process may have the number by now, so isOurs has to accept the process.
func fromPIDFile(file string, isOurs func(pid int) bool) (*member, error) {
	pid, err := readPID(file)
	if err != nil {
		return nil, err
	}
	if m := adopt(pid, isOurs); m != nil {
		return m, nil
	}
	return nil, fmt.Errorf("%s names process %d: %w", file, pid, errNotRunning)
}

// adopt watches a process that is no child of this one. It returns nil when isOurs refuses the
// process.
func adopt(pid int, isOurs func(pid int) bool) *member {
	st, ok := stat(pid)
	m := &member{
		pid:   pid,
		begun: st.Begun,
		done:  make(chan struct{}),
		quit:  make(chan struct{}),
		how:   "it ended",
	}
	// the number may have passed to another process in between
	if !ok || !isOurs(pid) || !m.alive() {
		return nil
	}
	go m.watch()
	return m
}

func readPID(file string) (int, error) {
	text, err := bounded.File(file, 64)
	if err != nil {
		return 0, err
	}
	return parsePID(file, text)
}

func parsePID(file string, text []byte) (int, error) {
	pid, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 32)
	if err != nil || pid <= 1 {
		return 0, fmt.Errorf("%s holds no process id: %q", file, text)
	}
	return int(pid), nil
}

// watch waits for the process to end.
func (m *member) watch() {
	defer close(m.done)
	ticker := time.NewTicker(watchInterval)
	defer ticker.Stop()
	for m.alive() {
		select {
		case <-ticker.C:
		case <-m.quit:
			return
		}
	}
}

// gone says whether the process has ended, without the delay of watch.
func (m *member) gone() bool {
	select {
	case <-m.done:
		return true
	default:
		return !m.child && !m.alive()
	}
}

func (m *member) alive() bool {
	st, ok := stat(m.pid)
	return ok && st.Begun == m.begun && !st.Dead
}

// signal sends a signal to the process, and to its group when the process leads one.
func (m *member) signal(s unix.Signal) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.reaped || !m.alive() {
		return
	}
	if group, err := unix.Getpgid(m.pid); err == nil && group == m.pid {
		_ = unix.Kill(-m.pid, s)
		return
	}
	_ = unix.Kill(m.pid, s)
}

// unwatch ends the watching. A child that does not end keeps its goroutine, which waits for it in
// the kernel.
func (m *member) unwatch() {
	if !m.child {
		m.once.Do(func() { close(m.quit) })
		<-m.done
	}
}

// ticks returns the time since boot in the unit of /proc/PID/stat. Linux fixes that unit at 1/100 s
// for user space.
func ticks() uint64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		return 0
	}
	return uint64(t.Nano() / int64(10*time.Millisecond))
}

// startedSince says whether a process was started at that time or later.
func startedSince(pid int, since uint64) bool {
	st, ok := stat(pid)
	n, err := strconv.ParseUint(st.Begun, 10, 64)
	return ok && err == nil && n >= since
}

// strays returns the processes of one start of a daemon, whatever session or group they moved to:
// all of them have its mark in their environment. This finds what a program left behind that failed
// before it wrote a pid file.
func strays(mark string, since uint64, known []*member) (found []*member) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	marked := func(pid int) bool {
		if !startedSince(pid, since) {
			return false
		}
		text := bounded.Head(fmt.Sprintf("/proc/%d/environ", pid), 1<<20)
		return slices.Contains(strings.Split(string(text), "\x00"), mark)
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || slices.ContainsFunc(known, func(m *member) bool { return m.pid == pid }) ||
			!marked(pid) {
			continue
		}
		if m := adopt(pid, marked); m != nil {
			found = append(found, m)
		}
	}
	return found
}

func stat(pid int) (kmod.ProcStat, bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return kmod.ProcStat{}, false
	}
	return kmod.ParseStat(text)
}

// runs says whether the process runs the program, even if the program's file was replaced since.
func runs(pid int, program string) bool {
	exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	return err == nil &&
		filepath.Base(strings.TrimSuffix(exe, " (deleted)")) == filepath.Base(program)
}
