package lab

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/driver-container/driver-container/ci/lab/wire"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

// Read reads a file on the guest's host.
func (g *Guest) Read(path string) string {
	g.t.Helper()
	var f wire.File
	g.call(wire.OpRead, wire.File{Path: path}, &f)
	return string(f.Data)
}

// Exists says whether a path exists on the guest's host; a dangling link counts.
func (g *Guest) Exists(path string) bool {
	g.t.Helper()
	return g.Run("sh", "-c", `[ -e "$1" ] || [ -L "$1" ]`, "sh", path).Code == 0
}

// Remove removes a file, or a folder with its contents.
func (g *Guest) Remove(path string) {
	g.t.Helper()
	g.call(wire.OpRemove, wire.File{Path: path}, nil)
}

// List lists everything below a folder of the guest's host on the same file system, one line each: mode,
// path, and size, target or device numbers. The list does not depend on time.
func (g *Guest) List(dir string) []string {
	g.t.Helper()
	var entries []wire.Entry
	g.call(wire.OpList, wire.File{Path: dir}, &entries)
	var lines []string
	for _, e := range entries {
		line := e.Mode + " " + e.Path
		switch {
		case e.Link != "":
			line += " -> " + e.Link
		case e.Mode[0] == 'D':
			line += fmt.Sprintf(" %d:%d", e.Major, e.Minor)
		case e.Mode[0] == '-':
			line += " " + strconv.FormatInt(e.Size, 10)
		}
		lines = append(lines, line)
	}
	return lines
}

// MountPoint is a line of the mountinfo of process 1.
type MountPoint struct {
	ID, Parent    int
	Point, Root   string
	Type, Source  string
	Shared        bool
	Options       string // of the mount point
	SuperOptions  string
	FileSystemDev string // "0:35"
}

// Mounts returns the mounts of the guest's host, in the kernel's order.
func (g *Guest) Mounts() []MountPoint {
	g.t.Helper()
	all, err := parseMounts(g.Read("/proc/1/mountinfo"))
	require.NoError(g.t, err)
	return all
}

// MountsBelow returns the mounts at a path or below it.
func (g *Guest) MountsBelow(path string) []MountPoint {
	g.t.Helper()
	return slices.DeleteFunc(g.Mounts(), func(m MountPoint) bool { return m.Point != path && !strings.HasPrefix(m.Point, path+"/") })
}

func parseMounts(text string) ([]MountPoint, error) {
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	var all []MountPoint
	for line := range strings.Lines(text) {
		before, after, found := strings.Cut(strings.TrimSpace(line), " - ")
		f, rest := strings.Fields(before), strings.Fields(after)
		if !found || len(f) < 6 || len(rest) < 2 {
			return nil, fmt.Errorf("mountinfo: %q", line)
		}
		id, err1 := strconv.Atoi(f[0])
		parent, err2 := strconv.Atoi(f[1])
		if err1 != nil || err2 != nil {
			return nil, fmt.Errorf("mountinfo: %q", line)
		}
		m := MountPoint{ID: id, Parent: parent, FileSystemDev: f[2], Root: unescape.Replace(f[3]), Point: unescape.Replace(f[4]), Options: f[5], Type: rest[0], Source: rest[1]}
		for _, tag := range f[6:] {
			m.Shared = m.Shared || strings.HasPrefix(tag, "shared:")
		}
		if len(rest) > 2 {
			m.SuperOptions = rest[2]
		}
		all = append(all, m)
	}
	return all, nil
}

// Modules returns the names of the loaded modules, sorted.
func (g *Guest) Modules() []string {
	g.t.Helper()
	var names []string
	for line := range strings.Lines(g.Read("/proc/modules")) {
		name, _, _ := strings.Cut(line, " ")
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Driver returns the loaded modules of the driver, sorted: only their names begin with nvidia.
func (g *Guest) Driver() []string {
	g.t.Helper()
	return slices.DeleteFunc(g.Modules(), func(name string) bool { return !strings.HasPrefix(name, "nvidia") })
}

// Dmesg returns the kernel log since boot.
func (g *Guest) Dmesg() string {
	g.t.Helper()
	log, err := g.kernelLog()
	require.NoError(g.t, err)
	return log
}

// kernelLog is Dmesg for the end of a test: it does not end the test when it fails.
func (g *Guest) kernelLog() (string, error) {
	const limit = 30 * time.Second
	spec := wire.Spec{ID: newID(), Args: []string{"dmesg"}, Env: hostEnv(), Dir: "/"}
	p := &Process{ID: spec.ID, t: g.t, client: g.client, spec: spec, news: make(chan struct{})}
	g.client.add(p)
	if err := g.client.call(wire.OpStart, spec, nil, limit); err != nil {
		return "", err
	}
	if !p.wait(limit, func() bool { return p.ended }) {
		return "", fmt.Errorf("dmesg did not end within %s", limit)
	}
	if p.code != 0 {
		return "", fmt.Errorf("dmesg: exit code %d: %s", p.code, tail(p.Output()))
	}
	return p.Output(), nil
}

// Hold opens a device file on the guest's host and keeps it open until Kill. It returns when the file is
// open.
func (g *Guest) Hold(device string) *Process {
	g.t.Helper()
	p := g.Process("sh", "-c", `exec 3<>"$1" && echo open && exec sleep 100000`, "sh", device)
	p.WaitLine("^open$", runLimit)
	return p
}

// Hold opens a device file in the container and keeps it open until Kill. It returns when the file is open.
func (p *Process) Hold(device string) *Process {
	p.t.Helper()
	h := p.ExecStart("sh", "-c", `exec 3<>"$1" && echo open && exec sleep 100000`, "sh", device)
	h.WaitLine("^open$", runLimit)
	return h
}

// Within calls ask until it returns true, at most for a limit on an idle machine, and returns the
// last answer.
func (g *Guest) Within(limit time.Duration, ask func() bool) bool {
	const pause = 100 * time.Millisecond
	for end := time.Now().Add(g.Limit(limit)); !ask(); <-time.After(pause) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// Eventually fails the test with the description of a condition if the condition does not become true within
// a limit on an idle machine.
func (g *Guest) Eventually(limit time.Duration, what string, ask func() bool) {
	g.t.Helper()
	if !g.Within(limit, ask) {
		g.t.Fatalf("not within %s: %s", g.Limit(limit), what)
	}
}
