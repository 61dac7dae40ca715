package host

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/driver-container/driver-container/kmod"
)

const (
	maxProcesses = 1 << 20
	maxArguments = 4 << 10 // bytes of a command line that are read: those of this program are short
)

// Instances returns the processes on this node that are instances of this program: one for each container,
// with its pod. An instance that does not hold the lock waits for it. proc is "/proc" except in tests.
// Processes of other containers are visible with hostPID only.
func Instances(proc string) []kmod.Holder {
	d, err := os.Open(proc)
	if err != nil {
		return nil
	}
	defer d.Close()
	names, err := d.Readdirnames(maxProcesses)
	if err != nil {
		return nil
	}
	var pids []int
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil && isInstance(filepath.Join(proc, name, "cmdline")) {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids) // the shim is older than its worker, which is the instance
	system := kmod.System{Proc: proc}
	var found []kmod.Holder
	for _, pid := range slices.Backward(pids) {
		h := system.Process(pid)
		same := func(o kmod.Holder) bool { return h.Container != "" && o.Container == h.Container }
		if slices.ContainsFunc(found, same) {
			continue
		}
		h.PodNamespace, h.PodName = system.PodOf(h.Pod)
		found = append(found, h)
	}
	slices.Reverse(found)
	return found
}

// isInstance reads a command line: it must be this program under one of its names, with the verb init in one
// of its spellings.
func isInstance(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	line, err := io.ReadAll(io.LimitReader(f, maxArguments))
	if err != nil {
		return false
	}
	args := bytes.Split(bytes.TrimRight(line, "\x00"), []byte{0})
	program := filepath.Base(string(args[0]))
	if program != "nvidia-driver" && program != "driver-entrypoint" {
		return false
	}
	return slices.ContainsFunc(args[1:], func(a []byte) bool {
		return string(a) == "init" || string(a) == "-a" || string(a) == "--accept-license"
	})
}
