package lab

import (
	"cmp"
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/images/rehearse"
	"github.com/driver-container/driver-container/images/rehearse/gpu"
	"github.com/driver-container/driver-container/images/rehearse/guest"
)

const (
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
	Images      map[string]guest.Image
	Disks       map[string]string // folder in the guest to a disk of TreeDisk, read only
	Programs    []string          // of this machine, for the guest's host, with their libraries
	NoHeaders   bool              // the host has no headers of its kernel
	Firmware    *Firmware         // UEFI; nil: QEMU starts the kernel itself
	// nil: the lab's; of the fields above, another has Kernel, GPUs, MemoryMB and CommandLine
	System *guest.System
	Quiet  time.Duration // until a guest of System answers, on an idle machine
}

// Guest is a running guest. Its methods end the test when they fail, so call them in the test's own
// goroutine.
type Guest struct {
	Patience Patience

	t       testing.TB
	guest   *guest.Guest
	console *Console
	setUp   string              // a script after each boot: /usr is in memory
	layers  map[string][]string // of images on the guest's own disk, see Unpack
	allow   []*regexp.Regexp    // lines of the kernel log that are expected
}

// Start boots a guest that ends with the test. The test fails if the kernel log shows a bug.
func Start(t testing.TB, config Config) *Guest {
	t.Helper()
	quiet := cmp.Or(config.Quiet, quietBoot)
	if config.Firmware != nil {
		quiet = quietStart
	}
	made := config.Guest(t)
	running, err := guest.Start(context.Background(), made) // not t's, which ends before Cleanup
	var boot *guest.BootError
	if errors.As(err, &boot) {
		t.Logf("the guest's console (%s):\n%s", keepConsole(t, boot.Console), tail(boot.Console))
	}
	require.NoError(t, err)
	t.Logf("guest: Linux %s ready after %s", running.Release, running.Boot.Round(10*time.Millisecond))
	g := &Guest{
		Patience: Measure(running.Boot, quiet), t: t, guest: running, layers: map[string][]string{},
	}
	g.console = &Console{guest: g}
	t.Cleanup(g.end)
	g.setUp = ":"
	if len(config.Programs) > 0 {
		g.setUp = "cp -a " + programsDir + "/. /usr/"
	}
	if config.NoHeaders {
		g.setUp += "; " + hideHeaders
	}
	g.Sh(g.setUp)
	return g
}

// Guest returns what the guest is made of. It is emulated, because KVM is often available and broken.
func (c Config) Guest(t testing.TB) guest.Config {
	t.Helper()
	made := guest.Config{
		Kernel: c.Kernel.guest, GPUs: c.GPUs, MemoryMB: c.MemoryMB, CommandLine: c.CommandLine,
		Images: c.Images, System: c.System, Accel: guest.TCG, Dir: t.TempDir(),
	}
	if c.Firmware != nil {
		made.Firmware = c.Firmware.guest(t, c.Kernel)
	}
	if c.System == nil {
		made.Disks = c.disks(t)
		made.Program = program(t)
	}
	return made
}

// hideHeaders does not remove thousands of files, which takes seconds.
const hideHeaders = `rm /lib/modules/*/build /lib/modules/*/source
for dir in /usr/src /usr/lib/linux-kbuild-*; do mount -t tmpfs tmpfs $dir; done`

// Reboot restarts a guest with Firmware.Debian. Its processes are lost; /var/lib and the firmware's
// variables are kept. during, which may be nil, uses the console until the kernel starts.
func (g *Guest) Reboot(during func(*Console)) {
	g.t.Helper()
	g.checkLog()
	g.console.seen = len(g.guest.Console())
	done := make(chan error, 1)
	go func() { done <- g.guest.Reboot(context.Background()) }()
	if during != nil {
		during(g.console)
	}
	require.NoError(g.t, <-done)
	g.Sh(g.setUp)
}

// Limit multiplies a time limit for an idle machine by a factor that follows from this guest's boot
// time.
func (g *Guest) Limit(quiet time.Duration) time.Duration { return g.Patience.Limit(quiet) }

// within returns a context for a limit on an idle machine.
func (g *Guest) within(quiet time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), g.Limit(quiet))
	g.t.Cleanup(cancel)
	return ctx
}

// Start starts a container, or a process on the host if no image is named.
func (g *Guest) Start(c Container) *Process {
	g.t.Helper()
	if c.Image == "" {
		return g.Process(append(slices.Clone(c.Command), c.Args...)...)
	}
	if len(c.Layers) == 0 {
		c.Layers = g.layers[c.Image]
	}
	p, err := g.guest.StartContainer(g.within(startLimit), guest.Container(c))
	return g.process(p, err)
}

// Process starts a process on the guest's host and does not wait for it.
func (g *Guest) Process(args ...string) *Process {
	g.t.Helper()
	p, err := g.guest.Process(g.within(startLimit), args...)
	return g.process(p, err)
}

func (g *Guest) process(p *guest.Process, err error) *Process {
	g.t.Helper()
	require.NoError(g.t, err)
	return &Process{Process: p, g: g}
}

// AllowDmesg declares lines of the kernel log as expected although they look like bugs.
func (g *Guest) AllowDmesg(pattern string) { g.allow = append(g.allow, regexp.MustCompile(pattern)) }

// end checks the kernel log and powers off; QEMU ends in any case.
func (g *Guest) end() {
	g.t.Helper()
	g.checkLog()
	assert.NoErrorf(g.t, g.guest.Close(g.within(powerLimit)), "guest")
	if g.t.Failed() {
		text := g.guest.Console()
		g.t.Logf("the guest's console (%s):\n%s", keepConsole(g.t, text), tail(text))
	}
}

func (g *Guest) checkLog() {
	g.t.Helper()
	log, err := g.guest.Dmesg(g.within(runLimit))
	assert.NoErrorf(g.t, err, "the guest's kernel log at the end")
	bugs := findBugs(log, g.allow)
	if len(bugs) > 0 {
		g.t.Errorf("the guest's kernel log shows a bug:\n%s", strings.Join(bugs, "\n"))
	}
}

// shown is the number of log lines that are shown, from a bug on.
const shown = 40

// findBugs returns the lines of a kernel log from the first bug on.
func findBugs(log string, allow []*regexp.Regexp) []string {
	lines := strings.Split(log, "\n")
	for i, line := range lines {
		expected := slices.ContainsFunc(
			allow,
			func(re *regexp.Regexp) bool { return re.MatchString(line) },
		)
		if !expected && rehearse.KernelBug().MatchString(line) {
			return lines[i:min(i+shown, len(lines))]
		}
	}
	return nil
}

// tail keeps messages readable: errors are at the end.
func tail(s string) string {
	const most = 8000
	if len(s) <= most {
		return s
	}
	return "[...]" + s[len(s)-most:]
}
