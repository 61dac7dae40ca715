package lab

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/lab/wire"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

// Read reads a file on the guest's host.
func (g *Guest) Read(path string) string {
	g.t.Helper()
	return string(
		require.Value(
			base64.StdEncoding.DecodeString(
				strings.ReplaceAll(g.must(nil, "base64", path), "\n", ""),
			),
		)(
			g.t,
		),
	)
}

// Exists says whether a path exists on the guest's host; a dangling link counts.
func (g *Guest) Exists(path string) bool {
	g.t.Helper()
	return g.Run("sh", "-c", `[ -e "$1" ] || [ -L "$1" ]`, "sh", path).Code == 0
}

// Write writes a file on the guest's host, and makes its folder if it is missing. Mode 0 means
// 0644.
func (g *Guest) Write(path, content string, mode os.FileMode) {
	g.t.Helper()
	const script = `[ -e "$1" ] || { mkdir -p "${1%/*}" && : >"$1" && chmod "$2" "$1"; }; cat >"$1"`
	g.must(
		[]byte(content),
		"sh",
		"-c",
		script,
		"sh",
		path,
		strconv.FormatUint(uint64(cmp.Or(mode.Perm(), 0o644)), 8),
	)
}

// Remove removes a file, or a folder with its contents.
func (g *Guest) Remove(path string) {
	g.t.Helper()
	g.must(nil, "rm", "-rf", path)
}

// Module inserts a module of the guest's kernel after the modules it needs.
func (g *Guest) Module(name string) {
	g.t.Helper()
	g.must(nil, "modprobe", name)
}

// Insert inserts a module file of the guest's host and returns the kernel's error number: 0 if it
// was inserted.
func (g *Guest) Insert(path string) syscall.Errno {
	g.t.Helper()
	return syscall.Errno(g.Run("insmod", path).Code) // as busybox ends
}

// Unpack copies an image to the guest's own disk, where containerd unpacks images: containers that
// are started from it from now on have two layers there below their own, the upper of which has the
// driver's modules and firmware. Without Unpack the image is a disk of its own.
func (g *Guest) Unpack(name string) {
	g.t.Helper()
	image := g.image(name)
	base := fmt.Sprintf("%s/%s-", snapshots, name)
	r := g.RunFor(unpackLimit, "sh", "-c", fmt.Sprintf(`set -e
		upper=usr/share/nvidia-driver
		mkdir -p %[1]s1/fs %[1]s2/fs/$upper
		cp -a %[2]s/. %[1]s1/fs
		rmdir %[1]s2/fs/$upper
		mv %[1]s1/fs/$upper %[1]s2/fs/$upper`, base, imageDir(name)))
	if r.Code != 0 {
		g.t.Fatalf("unpack %s: %s", name, r)
	}
	image.layers = fmt.Sprintf("%[1]s2/fs:%[1]s1/fs", base)
	g.config.Images[name] = image
}

const unpackLimit = 5 * time.Minute

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
	return slices.DeleteFunc(
		g.Modules(),
		func(name string) bool { return !strings.HasPrefix(name, "nvidia") },
	)
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
	return g.client.output(g.t, wire.Request{Args: []string{"dmesg"}}, runLimit)
}

// Hold opens a device file on the guest's host and keeps it open until Kill. It returns when the
// file is open.
func (g *Guest) Hold(device string) *Process {
	g.t.Helper()
	return hold(g.t, g.client, wire.Request{Args: holding(device)})
}

func holding(device string) []string {
	return []string{"sh", "-c", `exec 3<>"$1" && echo open && exec sleep 100000`, "sh", device}
}

func hold(t testing.TB, c *Client, r wire.Request) *Process {
	t.Helper()
	p := require.Value(c.start(t, r))(t)
	p.WaitLine("^open$", runLimit)
	return p
}

// Within calls ask until it returns true, at most for a limit on an idle machine, and returns the
// last answer.
func (g *Guest) Within(limit time.Duration, ask func() bool) bool {
	return g.client.Patience.Poll(limit, func() error {
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
