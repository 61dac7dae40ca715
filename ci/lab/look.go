package lab

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/images/rehearse/guest"
)

const (
	startLimit  = 120 * time.Second // of a process, with the set-up of its container
	runLimit    = 60 * time.Second  // of Run and Exec
	unpackLimit = 5 * time.Minute
)

// Run runs a command on the guest's host, which has only busybox.
func (g *Guest) Run(args ...string) guest.Result {
	g.t.Helper()
	return g.RunFor(runLimit, args...)
}

// RunFor is Run with another limit.
func (g *Guest) RunFor(limit time.Duration, args ...string) guest.Result {
	g.t.Helper()
	return require.Value(g.guest.Run(g.within(limit), args...))(g.t)
}

// must runs a command that must succeed, and returns its output.
func (g *Guest) must(limit time.Duration, args ...string) string {
	g.t.Helper()
	r := g.RunFor(limit, args...)
	if r.Code != 0 {
		g.t.Fatal(r)
	}
	return r.Output
}

// Sh runs a script on the guest's host and returns its output without the last newline. The test
// fails if the script fails.
func (g *Guest) Sh(script string) string {
	g.t.Helper()
	return strings.TrimSuffix(g.must(runLimit, "sh", "-c", script), "\n")
}

// Read reads a file on the guest's host.
func (g *Guest) Read(path string) string {
	g.t.Helper()
	return string(require.Value(g.guest.Read(g.within(runLimit), path))(g.t))
}

// Exists says whether a path exists on the guest's host; a dangling link counts.
func (g *Guest) Exists(path string) bool {
	g.t.Helper()
	return require.Value(g.guest.Exists(g.within(runLimit), path))(g.t)
}

// Write writes a file on the guest's host, and makes its folder if it is missing. Mode 0 means
// 0644.
func (g *Guest) Write(path, content string, mode os.FileMode) {
	g.t.Helper()
	require.NoError(g.t, g.guest.Write(g.within(runLimit), path, []byte(content), mode))
}

// Unpack copies an image to the guest's own disk, where containerd unpacks images: containers that
// are started from it from now on have two layers there below their own, the upper of which has the
// driver's modules and firmware. Without Unpack the image is a disk of its own.
func (g *Guest) Unpack(name string) {
	g.t.Helper()
	base := "/var/lib/containerd/io.containerd.snapshotter.v1.overlayfs/snapshots/" + name + "-"
	g.must(unpackLimit, "sh", "-c", fmt.Sprintf(`set -e
		upper=usr/share/nvidia-driver
		mkdir -p %[1]s1/fs %[1]s2/fs/$upper
		cp -a /lab/images/%[2]s/. %[1]s1/fs
		rmdir %[1]s2/fs/$upper
		mv %[1]s1/fs/$upper %[1]s2/fs/$upper`, base, name))
	g.layers[name] = []string{base + "2/fs", base + "1/fs"}
}

// Modules returns the names of the loaded modules, sorted.
func (g *Guest) Modules() []string {
	g.t.Helper()
	return require.Value(g.guest.Modules(g.within(runLimit)))(g.t)
}

// Driver returns the loaded modules of the driver, sorted: only their names begin with nvidia.
func (g *Guest) Driver() []string {
	g.t.Helper()
	return slices.DeleteFunc(
		g.Modules(),
		func(name string) bool { return !strings.HasPrefix(name, "nvidia") },
	)
}

// Dmesg returns the kernel log since boot.
func (g *Guest) Dmesg() string {
	g.t.Helper()
	return require.Value(g.guest.Dmesg(g.within(runLimit)))(g.t)
}

// Hold opens a device file on the guest's host and keeps it open until Kill. It returns when the
// file is open.
func (g *Guest) Hold(device string) *Process {
	g.t.Helper()
	p, err := g.guest.Hold(g.within(startLimit), device)
	return g.process(p, err)
}

// Within calls ask until it returns true, at most for a limit on an idle machine, and returns the
// last answer.
func (g *Guest) Within(limit time.Duration, ask func() bool) bool {
	return g.Patience.Poll(limit, func() error {
		if !ask() {
			return errors.New("not yet")
		}
		return nil
	}) == nil
}

// Eventually fails the test with the description of a condition if the condition does not become
// true within a limit on an idle machine.
func (g *Guest) Eventually(limit time.Duration, what string, ask func() bool) {
	g.t.Helper()
	if !g.Within(limit, ask) {
		g.t.Fatalf("not within %s: %s", g.Limit(limit), what)
	}
}
