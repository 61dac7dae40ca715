package lab

import (
	"cmp"
	"errors"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/lab/wire"
	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/images/rehearse/gpu"
)

const (
	// a guest that has not come by then hangs, and is started again once
	hangLimit  = 5 * time.Minute
	bootLimit  = 10 * time.Minute
	quietBoot  = 5 * time.Second  // of a kernel that QEMU starts directly
	quietStart = 40 * time.Second // with firmware and boot loaders
	powerLimit = 20 * time.Second
)

// Config describes a guest to start.
type Config struct {
	Kernel      *HostKernel
	GPUs        []gpu.Model
	MemoryMB    int    // default 1400
	CommandLine string // added to the kernel's command line: "module.sig_enforce=1"
	Images      map[string]Image
	Disks       map[string]string // folder in the guest to a disk of TreeDisk, read only
	Programs    []string          // of this machine, for the guest's host, with their libraries
	// the host has neither /usr/src nor the modules' links to the headers
	NoHeaders bool
	Firmware  *Firmware // UEFI; nil: QEMU starts the kernel itself
	// nil: the lab's; of the fields above, another has Kernel, GPUs, MemoryMB and CommandLine
	System *System
}

// Guest is a running guest. Its methods end the test when they fail, so call them in the test's own
// goroutine.
type Guest struct {
	t       testing.TB
	config  Config
	qemu    *machine
	client  *Client
	console *Console
	allow   []*regexp.Regexp // lines of the kernel log that are expected
}

// Start boots a guest that ends with the test. A guest that hangs while it boots is started again
// once. The test fails if the kernel log shows a bug.
func Start(t testing.TB, config Config) *Guest {
	t.Helper()
	config.MemoryMB = cmp.Or(config.MemoryMB, 1400)
	g := &Guest{t: t, config: config}
	begin := g.launch()
	t.Cleanup(g.end)
	if !g.ready(begin, hangLimit) {
		t.Logf(
			"the guest hung while it booted: its agent did not come within %s. It is started again, once. Its console:\n%s",
			hangLimit,
			tail(g.qemu.consoleText()),
		)
		_ = g.qemu.stop(0) // the error says that it was killed
		begin = g.launch()
		if !g.ready(begin, bootLimit) {
			t.Fatalf(
				"the guest hung again: its agent did not come within %s; the console:\n%s",
				bootLimit,
				tail(g.qemu.consoleText()),
			)
		}
	}
	return g
}

// launch starts QEMU and returns when that was.
func (g *Guest) launch() time.Time {
	g.t.Helper()
	begin := time.Now()
	g.qemu = startMachine(g.t, &g.config)
	g.client = Connect(g.qemu.port)
	g.console = nil
	if g.qemu.serial != nil {
		g.console = newConsole(g.t, g.qemu.serial)
	}
	return begin
}

// ready waits for the agent, at most for a limit. It measures how busy the machine is.
func (g *Guest) ready(begin time.Time, limit time.Duration) bool {
	g.t.Helper()
	select {
	case release := <-g.client.ready:
		boot := time.Since(begin)
		quiet := quietBoot
		if g.config.Firmware != nil {
			quiet = quietStart
		} else if g.config.System != nil {
			quiet = g.config.System.Quiet
		}
		g.client.Patience = Measure(boot, quiet)
		if g.console != nil {
			g.console.patience = g.client.Patience
		}
		g.t.Logf("guest: Linux %s ready after %s", release, boot.Round(10*time.Millisecond))
		return true
	case <-g.client.gone:
		g.t.Fatalf("the guest ended while it booted: %v", g.qemu.end())
	case <-time.After(limit):
	}
	return false
}

// Reboot restarts a guest with Firmware.Debian. Its processes are lost; /var/lib and the firmware's
// variables are kept. during, which may be nil, uses the console until the kernel starts.
func (g *Guest) Reboot(during func(*Console)) {
	g.t.Helper()
	if g.console == nil {
		g.t.Fatal("only a guest with Firmware.Debian can restart")
	}
	g.checkLog()
	begin := time.Now()
	g.client.forget(errors.New("the guest restarts"))
	require.NoError(g.t, g.client.send(wire.Request{Args: []string{"reboot", "-f"}}))
	if during != nil {
		during(g.console)
	}
	if !g.ready(begin, bootLimit) {
		g.t.Fatalf(
			"the guest's agent did not come within %s; the console:\n%s",
			bootLimit,
			tail(g.qemu.consoleText()),
		)
	}
}

// Limit multiplies a time limit for an idle machine by a factor that follows from this guest's boot
// time.
func (g *Guest) Limit(quiet time.Duration) time.Duration { return g.client.Patience.Limit(quiet) }

// Run runs a command on the guest's host, which has only busybox.
func (g *Guest) Run(args ...string) Result {
	g.t.Helper()
	return g.RunFor(runLimit, args...)
}

// RunFor is Run with another limit.
func (g *Guest) RunFor(limit time.Duration, args ...string) Result {
	g.t.Helper()
	return require.Value(g.client.Run(g.t, wire.Request{Args: args}, limit))(g.t)
}

// must runs a command that must succeed, and returns its output.
func (g *Guest) must(input []byte, args ...string) string {
	g.t.Helper()
	return require.Value(
		g.client.output(g.t, wire.Request{Args: args, Input: input}, runLimit),
	)(
		g.t,
	)
}

// image returns an image of the guest.
func (g *Guest) image(name string) Image {
	g.t.Helper()
	image, found := g.config.Images[name]
	if !found {
		g.t.Fatalf("the guest has no image %q", name)
	}
	return image
}

// Sh runs a script on the guest's host and returns its output without the last newline. The test
// fails if the script fails.
func (g *Guest) Sh(script string) string {
	g.t.Helper()
	return strings.TrimSuffix(g.must(nil, "sh", "-c", script), "\n")
}

// Start starts a container, or a process on the host if no image is named.
func (g *Guest) Start(c Container) *Process {
	g.t.Helper()
	if c.Image == "" {
		return g.Process(append(slices.Clone(c.Command), c.Args...)...)
	}
	return g.startContainer(c, g.image(c.Image))
}

// Process starts a process on the guest's host and does not wait for it.
func (g *Guest) Process(args ...string) *Process {
	g.t.Helper()
	return require.Value(g.client.start(g.t, wire.Request{Args: args}))(g.t)
}

// AllowDmesg declares lines of the kernel log as expected although they look like bugs.
func (g *Guest) AllowDmesg(
	pattern string,
) {
	g.allow = append(g.allow, regexp.MustCompile(pattern))
}

// end checks the kernel log and powers off; QEMU ends in any case.
func (g *Guest) end() {
	g.t.Helper()
	g.checkLog()
	args := []string{"poweroff", "-f"}
	if g.config.System != nil { // systemd's ends services first
		args = append(args, "-f")
	}
	_ = g.client.send(wire.Request{Args: args}) // stop says what comes of it
	assert.NoErrorf(g.t, g.qemu.stop(g.Limit(powerLimit)), "guest")
	if g.t.Failed() {
		g.t.Logf("the guest's console (%s):\n%s", g.qemu.keepConsole(), tail(g.qemu.consoleText()))
	}
}

func (g *Guest) checkLog() {
	g.t.Helper()
	if log, err := g.kernelLog(); err != nil {
		g.t.Errorf("the guest's kernel log cannot be read at the end: %v", err)
	} else if bugs := findBugs(log, g.allow); len(bugs) > 0 {
		g.t.Errorf("the guest's kernel log shows a bug:\n%s", strings.Join(bugs, "\n"))
	}
}

// shown is the number of log lines that are shown, from a bug on.
const shown = 40

var bugPattern = regexp.MustCompile(
	`WARNING:|\bOops\b|BUG:|BUG\b.*at |general protection|Kernel panic|blocked for more than|refcount_t|UBSAN|KASAN`,
)

// findBugs returns the lines of a kernel log from the first bug on.
func findBugs(log string, allow []*regexp.Regexp) []string {
	lines := strings.Split(log, "\n")
	for i, line := range lines {
		expected := slices.ContainsFunc(
			allow,
			func(re *regexp.Regexp) bool { return re.MatchString(line) },
		)
		if !expected && bugPattern.MatchString(line) {
			return lines[i:min(i+shown, len(lines))]
		}
	}
	return nil
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
