//go:build linux

package chroot

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/images/workdir"
)

const (
	cgroupMount = "/sys/fs/cgroup" // of cgroup v2
	groupFile   = "cgroup"         // in a step's folder: names its cgroup, for the cleanup after a dead owner
	groupPrefix = "driver-build-"
	// Processes of a step, where a cgroup counts them: far more than make starts on the largest machine.
	maxProcesses = 16384
)

// cgroups says where steps get cgroups, which bound their processes.
type cgroups struct {
	parent    string // folder; "": nowhere, and nothing bounds the processes
	processes int
}

// findCgroups looks for the nearest cgroup around this process, own, that gives its children limits and that this
// user may write. A cgroup that has processes cannot have such children, so the result is mostly the parent of the
// own one. It applies the limits of processes that it passes on the way, and stops at one of memory, which a step
// would escape.
func findCgroups(mount, own string) cgroups {
	found := cgroups{processes: maxProcesses}
	for at := own; path.IsAbs(at); at = path.Dir(at) {
		dir := filepath.Join(mount, at)
		given, err := os.ReadFile(filepath.Join(dir, "cgroup.subtree_control"))
		if err != nil {
			break
		}
		if slices.Contains(strings.Fields(string(given)), "pids") && unix.Access(dir, unix.W_OK) == nil {
			found.parent = dir
			break
		}
		if n, ok := readLimit(filepath.Join(dir, "pids.max")); ok {
			found.processes = min(found.processes, n)
		}
		if _, ok := readLimit(filepath.Join(dir, "memory.max")); ok || at == "/" {
			break
		}
	}
	return found
}

// readLimit reads a limit of a cgroup; ok is false when there is none.
func readLimit(file string) (int, bool) {
	b, err := os.ReadFile(file)
	if err != nil {
		return 0, false
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(b)))
	return n, err == nil
}

// ownCgroup returns the cgroup of this process, "" if it is in none that it can see. See cgroups(7).
func ownCgroup(file string) string {
	b, _ := os.ReadFile(file)
	for line := range strings.Lines(string(b)) {
		if p, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok && !strings.HasPrefix(p, "/..") {
			return p
		}
	}
	return ""
}

// make creates the cgroup of a step and returns its folder; "" where none can be created.
func (c cgroups) make(f *workdir.Dir) (group string, err error) {
	if c.parent == "" {
		return "", nil
	}
	group = filepath.Join(c.parent, groupPrefix+strconv.Itoa(os.Getpid())+"-"+filepath.Base(f.Path))
	if err = os.WriteFile(filepath.Join(f.Path, groupFile), []byte(group), 0o600); err == nil {
		err = os.Mkdir(group, 0o755)
	}
	if err != nil {
		return "", fmt.Errorf("make a cgroup for the step: %w", err)
	}
	if err = os.WriteFile(filepath.Join(group, "pids.max"), []byte(strconv.Itoa(c.processes)), 0); err != nil {
		return "", errors.Join(fmt.Errorf("limit the processes of the step: %w", err), removeCgroup(group))
	}
	return group, nil
}

// removeCgroup removes a cgroup of this package whose processes are dead. The kernel may need a moment to
// release the last one.
func removeCgroup(group string) error {
	if !strings.HasPrefix(filepath.Base(group), groupPrefix) {
		return fmt.Errorf("remove cgroup %.200q: that is none of ours", group)
	}
	for range 100 {
		err := unix.Rmdir(group)
		if err == nil || errors.Is(err, unix.ENOENT) {
			return nil
		}
		if !errors.Is(err, unix.EBUSY) {
			return &os.PathError{Op: "remove cgroup", Path: group, Err: err}
		}
		<-time.After(10 * time.Millisecond)
	}
	return fmt.Errorf("remove cgroup %s: it still has processes", group)
}

// removeStaleGroup removes the cgroup of a step whose owner died.
func removeStaleGroup(work *os.Root, name string) error {
	group, err := work.ReadFile(path.Join(name, groupFile))
	if err != nil {
		return nil //nolint:nilerr // the owner died before it had one
	}
	return removeCgroup(string(group))
}
