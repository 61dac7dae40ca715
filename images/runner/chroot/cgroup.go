//go:build linux

package chroot

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
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

// groupFile is a file in a step's folder that names the step's cgroup, so that a cleanup after a dead owner
// finds it.
const (
	groupFile   = "cgroup"
	groupPrefix = "driver-build-"
)

// cgroups says where cgroups for steps can be created.
type cgroups struct {
	parent string // folder of a cgroup v2 whose children get memory and pids controllers; "": there is none
	why    string // why there is none
	pids   int    // maximal number of processes of a step
}

// cgroup bounds one step. A nil cgroup bounds nothing; its methods do nothing.
type cgroup struct{ dir string }

// findCgroups looks for the nearest cgroup around this process in which it can create children with limits. A
// cgroup that has processes cannot have such children, so the result is mostly the parent of the own one.
// findCgroups never goes above a cgroup with a memory limit, because the step would escape that limit. It
// applies the limits of processes of the cgroups that it passes on the way.
func findCgroups() cgroups {
	mount, err := cgroupMount("/proc/self/mountinfo")
	if err != nil {
		return cgroups{why: err.Error()}
	}
	own, err := ownCgroup("/proc/self/cgroup")
	if err != nil {
		return cgroups{why: err.Error()}
	}
	return searchCgroups(mount, own)
}

func searchCgroups(mount, own string) cgroups {
	found := cgroups{pids: maxProcesses}
	for at := filepath.Clean("/" + own); ; at = filepath.Dir(at) {
		dir := filepath.Join(mount, at)
		given, err := os.ReadFile(filepath.Join(dir, "cgroup.subtree_control"))
		if err != nil {
			return cgroups{why: err.Error()}
		}
		has := strings.Fields(string(given))
		if slices.Contains(has, "memory") && slices.Contains(has, "pids") && unix.Access(dir, unix.W_OK) == nil {
			found.parent = dir
			return found
		}
		if _, ok := readLimit(filepath.Join(dir, "memory.max")); ok {
			return cgroups{why: "the own cgroup " + at + " has a limit of memory itself, which holds"}
		}
		if n, ok := readLimit(filepath.Join(dir, "pids.max")); ok {
			found.pids = min(found.pids, n)
		}
		if at == "/" {
			return cgroups{why: "none that this user may write gives its children memory and pids"}
		}
	}
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

// cgroupMount returns the folder where the cgroup v2 hierarchy is mounted. See proc_pid_mountinfo(5).
func cgroupMount(mountinfo string) (string, error) {
	f, err := os.Open(mountinfo)
	if err != nil {
		return "", err
	}
	defer f.Close()
	for s := bufio.NewScanner(io.LimitReader(f, 16<<20)); s.Scan(); {
		before, after, _ := strings.Cut(s.Text(), " - ")
		fields := strings.Fields(before)
		if strings.HasPrefix(after, "cgroup2 ") && len(fields) > 4 && fields[3] == "/" {
			return fields[4], nil
		}
	}
	return "", errors.New("no cgroup v2 is mounted")
}

// ownCgroup returns the path of this process in that hierarchy. See cgroups(7).
func ownCgroup(file string) (string, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(b)) {
		if p, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok && !strings.HasPrefix(p, "/..") {
			return p, nil
		}
	}
	return "", errors.New("this process is in no cgroup v2")
}

// make creates the cgroup of a step; it returns nil where none can be created.
func (c cgroups) make(f *workdir.Dir, memory int64) (*cgroup, error) {
	if c.parent == "" {
		return nil, nil //nolint:nilnil // a nil group does nothing
	}
	g := &cgroup{dir: filepath.Join(c.parent, groupPrefix+strconv.Itoa(os.Getpid())+"-"+filepath.Base(f.Path))}
	if err := os.WriteFile(filepath.Join(f.Path, groupFile), []byte(g.dir), 0o600); err != nil {
		return nil, err
	}
	if err := os.Mkdir(g.dir, 0o755); err != nil {
		return nil, fmt.Errorf("make a cgroup for the step: %w", err)
	}
	values := map[string]string{"pids.max": strconv.Itoa(c.pids)}
	if memory > 0 {
		values["memory.max"], values["memory.swap.max"] = strconv.FormatInt(memory, 10), "0"
	}
	for name, value := range values {
		err := os.WriteFile(filepath.Join(g.dir, name), []byte(value), 0)
		if err != nil && (name != "memory.swap.max" || !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission)) {
			return nil, errors.Join(fmt.Errorf("limit the step: %w", err), g.remove())
		}
	}
	return g, nil
}

func (g *cgroup) add(pid int) error {
	if g == nil {
		return nil
	}
	if err := os.WriteFile(filepath.Join(g.dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0); err != nil {
		return fmt.Errorf("put the step into its cgroup: %w", err)
	}
	return nil
}

// killed reports whether the kernel killed a process of the group because of its memory limit.
func (g *cgroup) killed() bool {
	if g == nil {
		return false
	}
	b, err := os.ReadFile(filepath.Join(g.dir, "memory.events"))
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(b)) {
		if n, ok := strings.CutPrefix(strings.TrimSpace(line), "oom_kill "); ok {
			return n != "0"
		}
	}
	return false
}

func (g *cgroup) remove() error {
	if g == nil {
		return nil
	}
	return removeCgroup(g.dir)
}

// removeCgroup removes a cgroup of this package whose processes are dead. The kernel may need a moment to
// release the last one.
func removeCgroup(dir string) error {
	if !strings.HasPrefix(filepath.Base(dir), groupPrefix) {
		return fmt.Errorf("remove cgroup %.200q: that is none of ours", dir)
	}
	for range 100 {
		err := unix.Rmdir(dir)
		if err == nil || errors.Is(err, unix.ENOENT) {
			return nil
		}
		if !errors.Is(err, unix.EBUSY) {
			return &os.PathError{Op: "remove cgroup", Path: dir, Err: err}
		}
		<-time.After(10 * time.Millisecond)
	}
	return fmt.Errorf("remove cgroup %s: it still has processes", dir)
}

// removeStaleGroup removes the cgroup of a step whose owner died.
func removeStaleGroup(work *os.Root, name string) error {
	group, err := work.ReadFile(path.Join(name, groupFile))
	if err != nil {
		return nil //nolint:nilerr // the owner died before it had one
	}
	return removeCgroup(string(group))
}
