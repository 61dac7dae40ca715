package shim

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/kmod"
)

// orphans ends the descendants of this process that outlive the worker. Orphans become children of
// the shim, whatever session or group they moved to, because the shim is process 1 or a subreaper.
// Processes that others started in the container (an exec of the runtime, all of the node's
// processes when the pod shares its process ids) are no descendants and are not touched.
type orphans struct {
	children <-chan os.Signal
	// a signal during the wait ends the grace period: the container has to end at once
	signals <-chan os.Signal
}

// end sends the descendants SIGTERM, waits, kills them, and returns those that are still there.
func (r orphans) end(grace time.Duration) []int {
	reap(0)
	left := r.descendants()
	if len(left) == 0 {
		return nil
	}
	signalAll(left, unix.SIGTERM)
	signalAll(left, unix.SIGCONT) // a stopped process would not handle SIGTERM
	if r.wait(grace, false) {
		return nil
	}
	r.wait(killTimeout, true)
	return r.descendants()
}

// wait reaps until no descendant is left or the limit is reached. With kill, each round kills the
// descendants that it finds: a process may have started another one before it died.
func (r orphans) wait(limit time.Duration, kill bool) (clean bool) {
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	// The end of a grandchild sends no SIGCHLD to this process, so the loop also looks at
	// intervals.
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	signals := r.signals
	if kill {
		signals = nil
	}
	for {
		reap(0)
		left := r.descendants()
		if len(left) == 0 {
			return true
		}
		if kill {
			signalAll(left, unix.SIGKILL)
		}
		select {
		case <-deadline.C:
			return false
		case <-signals:
			return false
		case <-r.children:
		case <-again.C:
		}
	}
}

// signalAll signals processes that were descendants a moment ago. The number of a child of this
// process cannot have been reused, since only this goroutine reaps. The number of a grandchild
// could be, in theory; but the kernel assigns numbers in order, so tens of thousands of processes
// would have to start within that moment.
func signalAll(pids []int, s unix.Signal) {
	for _, pid := range pids {
		_ = unix.Kill(pid, s) // a process that has ended is no error
	}
}

// descendants lists the live (not zombie) processes below this one.
func (r orphans) descendants() []int {
	entries, _ := os.ReadDir("/proc") //nolint:errcheck // without it nobody is found
	below := map[int][]int{}
	zombie := map[int]bool{}
	for _, e := range entries {
		pid, _ := strconv.Atoi(e.Name())                                 //nolint:errcheck // 0: no process
		stat, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "stat")) //nolint:errcheck // it has ended
		if st, ok := kmod.ParseStat(stat); ok && pid > 0 {
			below[st.Parent] = append(below[st.Parent], pid)
			zombie[pid] = st.Dead
		}
	}
	var all []int
	for todo := []int{os.Getpid()}; len(todo) > 0; {
		next := below[todo[0]]
		// the list is no snapshot: a number can occur twice, this prevents an endless loop
		delete(below, todo[0])
		todo = append(todo[1:], next...)
		all = append(all, next...)
	}
	return slices.DeleteFunc(all, func(pid int) bool { return zombie[pid] })
}
