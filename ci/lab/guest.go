package lab

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/lab/fakegpu"
	"github.com/driver-container/driver-container/ci/lab/wire"
	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

const (
	hangLimit  = 5 * time.Minute // a guest that has not come by then hangs, and is started again once
	bootLimit  = 10 * time.Minute
	quietBoot  = 5 * time.Second  // of a kernel that QEMU starts directly
	quietStart = 40 * time.Second // with firmware and boot loaders
	powerLimit = 20 * time.Second
)

// Config describes a guest to start.
type Config struct {
	Kernel      *HostKernel
	GPUs        []fakegpu.Model
	MemoryMB    int    // default 1400
	CPUs        int    // default 2; 1 for a guest that can restart
	Threads     bool   // a thread of QEMU for each CPU, for measurements; the guest may hang, see [qemu.Hardware]
	CommandLine string // added to the kernel's command line: "module.sig_enforce=1"
	Images      map[string]Image
	Disks       map[string]string // folder in the guest to a disk of TreeDisk, read only
	DiskMB      int               // size of the disk at /var/lib, default 8192
	NoHeaders   bool              // the host has neither /usr/src nor the modules' links to the headers
	Network     bool              // the guest has a network, on which 10.0.2.2 is this machine's loopback
	IOMMU       bool              // the guest has an IOMMU, so that vfio-pci takes a GPU; without Firmware
	PCIStub     bool              // the GPUs are bound to pci-stub before any other program runs
	Firmware    *Firmware         // UEFI; nil: QEMU starts the kernel itself
}

// Guest is a running guest. Its methods end the test when they fail, so call them in the test's own
// goroutine.
type Guest struct {
	t       testing.TB
	config  Config
	qemu    *machine
	client  *client
	console *Console
	boot    time.Duration
	allow   []*regexp.Regexp // lines of the kernel log that are expected
}

// Start boots a guest that ends with the test. A guest that hangs while it boots is started again once. The
// test fails if the kernel log shows a bug.
func Start(t testing.TB, config Config) *Guest {
	t.Helper()
	return startWithin(t, config, hangLimit)
}

func startWithin(t testing.TB, config Config, hang time.Duration) *Guest {
	t.Helper()
	if config.MemoryMB == 0 {
		config.MemoryMB = 1400
	}
	if config.CPUs == 0 {
		config.CPUs = 2
		if config.Firmware != nil && config.Firmware.Debian {
			config.CPUs = 1 // with two CPUs, firmware takes 25 s instead of 10 to restart
		}
	}
	if config.DiskMB == 0 {
		config.DiskMB = 8192
	}
	g := &Guest{t: t, config: config}
	begin := g.launch()
	t.Cleanup(g.end)
	if !g.ready(begin, hang) {
		t.Logf("the guest hung while it booted: its agent did not come within %s. It is started again, once. Its console:\n%s", hang, tail(g.qemu.consoleText()))
		_ = g.qemu.stop(0) // the error says that it was killed
		if begin = g.launch(); !g.ready(begin, bootLimit) {
			t.Fatalf("the guest hung again: its agent did not come within %s; the console:\n%s", bootLimit, tail(g.qemu.consoleText()))
		}
	}
	g.setup()
	return g
}

// launch starts QEMU and returns when that was.
func (g *Guest) launch() time.Time {
	g.t.Helper()
	begin := time.Now()
	g.qemu = startMachine(g.t, &g.config)
	g.client, g.console = newClient(g.qemu.port), nil
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
		g.boot = time.Since(begin)
		quiet := quietBoot
		if g.config.Firmware != nil {
			quiet = quietStart
		}
		g.client.patience = Measure(g.boot, quiet)
		if g.console != nil {
			g.console.patience = g.client.patience
		}
		g.t.Logf("guest: Linux %s ready after %s", release, g.boot.Round(10*time.Millisecond))
		return true
	case <-g.client.gone:
		g.t.Fatalf("the guest ended while it booted: %v", g.qemu.end())
	case <-time.After(limit):
	}
	return false
}

// Reboot restarts a guest with Firmware.Debian. Its processes are lost; /var/lib and the firmware's variables
// are kept. during, which may be nil, uses the console until the kernel starts.
func (g *Guest) Reboot(during func(*Console)) {
	g.t.Helper()
	if g.console == nil {
		g.t.Fatal("only a guest with Firmware.Debian can restart")
	}
	g.checkLog()
	begin := time.Now()
	g.client.forget()
	g.call(wire.OpReboot, wire.File{}, nil)
	if during != nil {
		during(g.console)
	}
	if !g.ready(begin, bootLimit) {
		g.t.Fatalf("the guest's agent did not come within %s; the console:\n%s", bootLimit, tail(g.qemu.consoleText()))
	}
	g.setup()
}

// Limit multiplies a time limit for an idle machine by a factor that follows from this guest's boot time.
func (g *Guest) Limit(quiet time.Duration) time.Duration { return g.client.patience.Limit(quiet) }

// setup does the steps inside the guest that Config describes.
func (g *Guest) setup() {
	g.t.Helper()
	for i, name := range sortedKeys(g.config.Images) {
		g.call(wire.OpMount, wire.Mount{Serial: fmt.Sprint("image", i), Path: imageDir(name), Type: "erofs"}, nil)
	}
	for i, path := range sortedKeys(g.config.Disks) {
		g.call(wire.OpMount, wire.Mount{Serial: fmt.Sprint("disk", i), Path: path, Type: "erofs"}, nil)
	}
	if g.config.Network {
		g.Module("virtio_net")
		g.Sh("i=0; while [ ! -d /sys/class/net/eth0 ] && [ $i -lt 100 ]; do sleep 0.1; i=$((i+1)); done; " +
			"ip link set eth0 up && ip addr add 10.0.2.15/24 dev eth0 && ip route add default via 10.0.2.2")
	}
	if g.config.PCIStub {
		g.Module("pci_stub")
		for _, m := range g.config.GPUs {
			g.Write("/sys/bus/pci/drivers/pci-stub/new_id", fmt.Sprintf("10de %04x", m.Device), 0)
		}
	}
}

func (g *Guest) call(op string, body, answer any) {
	g.t.Helper()
	require.NoErrorf(g.t, g.client.call(op, body, answer, callLimit), "guest")
}

// Run runs a command on the guest's host, which has only busybox.
func (g *Guest) Run(args ...string) Result {
	g.t.Helper()
	return g.RunFor(runLimit, args...)
}

// RunFor is Run with another limit.
func (g *Guest) RunFor(limit time.Duration, args ...string) Result {
	g.t.Helper()
	return run(g.t, g.client, wire.Spec{Args: args, Env: hostEnv(), Dir: "/"}, limit)
}

// Sh runs a script on the guest's host and returns its output without the last newline. The test fails if the
// script fails.
func (g *Guest) Sh(script string) string {
	g.t.Helper()
	r := g.Run("sh", "-c", script)
	if r.Code != 0 {
		g.t.Fatalf("guest: %s", r)
	}
	return strings.TrimSuffix(r.Output, "\n")
}

// Start starts a container, or a process on the host if no image is named.
func (g *Guest) Start(c Container) *Process {
	g.t.Helper()
	if _, found := g.config.Images[c.Image]; c.Image != "" && !found {
		g.t.Fatalf("the guest has no image %q", c.Image)
	}
	return start(g.t, g.client, c.spec(g.config.Images))
}

// Process starts a process on the guest's host and does not wait for it.
func (g *Guest) Process(args ...string) *Process {
	g.t.Helper()
	return g.Start(Container{Command: args, Dir: "/"})
}

// Module inserts a module of the guest's kernel after the modules it needs, by its name with underscores.
func (g *Guest) Module(name string) {
	g.t.Helper()
	g.call(wire.OpModule, wire.File{Path: name}, nil)
}

// Insert inserts a module file of the guest's host and returns the kernel's error number: 0 if it was
// inserted.
func (g *Guest) Insert(path string) syscall.Errno {
	g.t.Helper()
	var answer wire.Inserted
	g.call(wire.OpInsert, wire.File{Path: path}, &answer)
	return syscall.Errno(answer.Errno)
}

// AllowDmesg declares lines of the kernel log as expected although they look like bugs.
func (g *Guest) AllowDmesg(pattern string) { g.allow = append(g.allow, regexp.MustCompile(pattern)) }

// end checks the kernel log and powers off; QEMU ends in any case.
func (g *Guest) end() {
	g.t.Helper()
	g.checkLog()
	// The request gets no answer: the port is closed.
	_ = g.client.call(wire.OpPowerOff, wire.File{}, nil, powerLimit)
	assert.NoErrorf(g.t, g.qemu.stop(g.Limit(powerLimit)), "guest")
	if g.t.Failed() {
		g.t.Logf("the guest's console (%s):\n%s", g.qemu.keepConsole(), tail(g.qemu.consoleText()))
	}
}

func (g *Guest) checkLog() {
	g.t.Helper()
	if bugs, err := g.bugs(); err != nil {
		g.t.Errorf("the guest's kernel log cannot be read at the end: %v", err)
	} else if len(bugs) > 0 {
		g.t.Errorf("the guest's kernel log shows a bug:\n%s", strings.Join(bugs, "\n"))
	}
}

// shown is the number of log lines that are shown, from a bug on.
const shown = 40

var bugPattern = regexp.MustCompile(`WARNING:|\bOops\b|BUG:|BUG\b.*at |general protection|Kernel panic|blocked for more than|refcount_t|UBSAN|KASAN`)

// bugs returns the lines of the kernel log from the first bug on.
func (g *Guest) bugs() ([]string, error) {
	log, err := g.kernelLog()
	if err != nil {
		return nil, err
	}
	return findBugs(log, g.allow), nil
}

func findBugs(log string, allow []*regexp.Regexp) []string {
	lines := strings.Split(log, "\n")
	for i, line := range lines {
		expected := slices.ContainsFunc(allow, func(re *regexp.Regexp) bool { return re.MatchString(line) })
		if !expected && bugPattern.MatchString(line) {
			return lines[i:min(i+shown, len(lines))]
		}
	}
	return nil
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// Write writes a file on the guest's host, and makes its folder if it is missing. Mode 0 means 0644.
func (g *Guest) Write(path, content string, mode os.FileMode) {
	g.t.Helper()
	g.call(wire.OpWrite, wire.File{Path: path, Data: []byte(content), Mode: uint32(mode.Perm())}, nil)
}
