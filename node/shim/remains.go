package shim

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// remains are the descendants of this process after the worker's end. Orphans become children of the shim, which is process 1
// or a subreaper, whatever session or group they moved to; processes that others started in the container (an exec of the
// runtime, everything of the node when the pod shares its process ids) are no descendants and are not touched.
type remains struct {
	proc     string
	children <-chan os.Signal
	signals  <-chan os.Signal // a signal while waiting ends the patience: somebody wants the container gone
}

// end asks the descendants to end, waits, kills them, and returns those that stay.
func (r remains) end(grace time.Duration) []int {
	reap(0)
	left := r.descendants()
	if len(left) == 0 {
		return nil
	}
	send(left, unix.SIGTERM)
	send(left, unix.SIGCONT) // a stopped process would not see SIGTERM
	if r.wait(grace, false) {
		return nil
	}
	r.wait(gone, true)
	return r.descendants()
}

// wait reaps until no descendant is left or the time is over. With kill, each round kills what it finds: a process that
// is being killed may have started another one.
func (r remains) wait(limit time.Duration, kill bool) (clean bool) {
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	// A grandchild's end sends no SIGCHLD to this process, so looking again now and then is needed.
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
			send(left, unix.SIGKILL)
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

// send signals processes that were descendants a moment ago. Children of this process cannot have been reaped in between (only
// this goroutine reaps); a grandchild's number could be taken over within that moment in theory, and the kernel hands numbers
// out in order, so that it would take tens of thousands of new processes.
func send(pids []int, s unix.Signal) {
	for _, pid := range pids {
		_ = unix.Kill(pid, s) // gone is fine
	}
}

// descendants lists live (not zombie) processes below this one.
func (r remains) descendants() []int {
	names, err := filepath.Glob(filepath.Join(r.proc, "[0-9]*"))
	if err != nil {
		return nil
	}
	below := map[int][]int{}
	zombie := map[int]bool{}
	for _, name := range names {
		pid, err := strconv.Atoi(filepath.Base(name))
		if err != nil {
			continue
		}
		stat, err := os.ReadFile(filepath.Join(name, "stat"))
		if err != nil {
			continue
		}
		parent, dead, ok := parseStat(stat)
		if ok {
			below[parent] = append(below[parent], pid)
			zombie[pid] = dead
		}
	}
	var all []int
	for todo := []int{os.Getpid()}; len(todo) > 0; {
		next := below[todo[0]]
		delete(below, todo[0]) // the listing is no snapshot: never walk in a circle
		todo = append(todo[1:], next...)
		all = append(all, next...)
	}
	return slices.DeleteFunc(all, func(pid int) bool { return zombie[pid] })
}

// parseStat reads the parent and the state out of /proc/PID/stat. The command's name may hold spaces and parentheses: what
// counts begins after the last one.
func parseStat(stat []byte) (parent int, dead, ok bool) {
	i := bytes.LastIndexByte(stat, ')')
	if i < 0 {
		return 0, false, false
	}
	fields := bytes.Fields(stat[i+1:])
	if len(fields) < 2 || len(fields[0]) != 1 {
		return 0, false, false
	}
	parent, err := strconv.Atoi(string(fields[1]))
	if err != nil || parent < 0 {
		return 0, false, false
	}
	return parent, fields[0][0] == 'Z' || fields[0][0] == 'X', true
}
