package host

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/driver-container/driver-container/distros/bounded"
	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/node/drivertoolkit"
)

const (
	maxProcesses = 1 << 20
	maxArguments = 4 << 10 // bytes of a command line that are read: those of this program are short
)

// Instances returns the processes on this node that are instances of this program: one for each
// container, with its pod. An instance that does not hold the lock waits for it. proc is "/proc"
// except in tests. Processes of other containers are visible with hostPID only.
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
		if pid, err := strconv.Atoi(name); err == nil &&
			isInstance(arguments(filepath.Join(proc, name, "cmdline"))) {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids) // a worker is younger than its shim or shell, and is the process to name
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

// arguments reads the beginning of a command line; nil if it has none, as a thread of the kernel.
func arguments(path string) []string {
	line := bounded.Head(path, maxArguments)
	if len(line) == 0 {
		return nil
	}
	return strings.Split(strings.TrimRight(string(line), "\x00"), "\x00")
}

// isInstance reports whether a command line is this program under one of its names, with the verb
// init in one of its spellings.
func isInstance(args []string) bool {
	if len(args) == 0 ||
		!slices.Contains(
			[]string{"nvidia-driver", "driver-entrypoint", drivertoolkit.Program},
			filepath.Base(args[0]),
		) {
		return false
	}
	return slices.ContainsFunc(args[1:], func(a string) bool {
		return slices.Contains([]string{"init", drivertoolkit.DriverVerb, "-a"}, a) ||
			strings.HasPrefix(a, "--accept-license")
	})
}
