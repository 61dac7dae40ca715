package scenarios

import (
	"bytes"
	"cmp"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/lab"
	"github.com/driver-container/driver-container/ci/logtest"
	"github.com/driver-container/driver-container/ci/require"
	"github.com/driver-container/driver-container/ci/tool"
)

// nativeStarts writes the project's own part of starts on this machine, with a cached set and a baked folder.
func nativeStarts(t *testing.T, kernel *lab.HostKernel, runs int, note, raw *strings.Builder) {
	t.Helper()
	n := newNative(t, kernel)
	runs *= 3 // of a fraction of a second each
	for _, k := range []struct{ name, row, state string }{{"", "modules and root cached", n.cached(t)}, {"-baked", "baked", bakedState(t, kernel)}} {
		own, log := n.starts(t, k.state, runs)
		if k.name == "-baked" {
			contains(t, log, `baked for this driver and kernel`)
			assert.Equalf(t, 0, strings.Count(log, "driver root staged"), "%s", log)
		}
		median := own[len(own)/2]
		fmt.Fprintf(note, "\nOwn part of a start on this machine, %s: %s s (median of %d; %s).\n", k.row, seconds(median.took), runs, median.phases)
		for _, o := range own {
			fmt.Fprintf(raw, "boot\tstart%s-native\t%.3f\n", k.name, o.took.Seconds())
		}
	}
}

// native starts the image d535 on this machine: see the command ci/lab/nativestart for what is real.
type native struct {
	program, root, nvml string
	kernel              *lab.HostKernel
}

func newNative(t *testing.T, kernel *lab.HostKernel) native {
	t.Helper()
	dir := t.TempDir()
	n := native{program: filepath.Join(dir, "nativestart"), root: filepath.Join(dir, "bundle/rootfs"), nvml: filepath.Join(dir, "nvml.so"), kernel: kernel}
	tool.Must(t, "go", "build", "-o", n.program, "../nativestart")
	tool.Must(t, "cc", "-shared", "-fPIC", "-w", fmt.Sprintf("-DVERSION=%q", d535.driver), "-Wl,-soname,libnvidia-ml.so.1", "-o", n.nvml, "../nativestart/testdata/nvml.c")
	making.Lock()
	defer making.Unlock()
	tool.Must(t, "umoci", "unpack", "--image", d535.layout(t)+":"+d535.tag(), filepath.Dir(n.root))
	return n
}

// cached returns a state folder with modules. The first start, which is not measured, adds the driver root.
func (n native) cached(t *testing.T) string {
	t.Helper()
	state := t.TempDir()
	tool.Must(t, "cp", "-a", d535.modules(t, n.kernel, closed), filepath.Join(state, "modules"))
	return state
}

// nativeStart is the project's own part of a start: from exec to ready, without what the fake kernel took.
type nativeStart struct {
	took   time.Duration
	phases string
}

// starts returns that many starts, the shortest first, and what they and the one before them logged.
func (n native) starts(t *testing.T, state string, runs int) (all []nativeStart, log string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), n.program, "-root", n.root, "-state", state, "-host", n.kernel.Root, "-nvml", n.nvml, //nolint:gosec // made above
		"-release", n.kernel.Release, "-n", strconv.Itoa(runs), "-log")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	log = stderr.String()
	require.NoErrorf(t, err, "%s%s", out, log)
	assert.Equalf(t, runs+1, strings.Count(log, logtest.Ready), "starts that were ready\n%s", log)
	for line := range strings.Lines(string(out)) {
		var ready, kernel float64
		_, err := fmt.Sscan(line, &ready, &kernel)
		require.NoErrorf(t, err, "%q", line)
		all = append(all, nativeStart{time.Duration((ready - kernel) * float64(time.Second)), strings.Join(strings.Fields(line)[2:], " ")})
		t.Log(strings.TrimSpace(line))
	}
	slices.SortFunc(all, func(a, b nativeStart) int { return cmp.Compare(a.took, b.took) })
	return all, log
}

// emulation is a command of busybox that is timed in the guest and on this machine.
type emulation struct{ name, what, script string }

var emulations = []emulation{
	{"md5sum", "md5sum of nvidia.ko", "busybox md5sum nvidia.ko >/dev/null"},
	{"processes", "starting 100 processes", "for n in $(seq 100); do /bin/busybox true; done"},
}

// compare runs the command three times each in turns, and writes the shortest times.
func (e emulation) compare(t *testing.T, g *lab.Guest, kernel *lab.HostKernel, note, raw *strings.Builder) {
	t.Helper()
	dir := d535.modules(t, kernel, closed)
	emulated, native := time.Hour, time.Hour
	for range 3 {
		begin, end := twoTimes(t, g, "cd "+cachedModules+"; cut -d' ' -f1 /proc/uptime; "+e.script+"; cut -d' ' -f1 /proc/uptime")
		emulated = min(emulated, end-begin)
		from := time.Now()
		tool.Must(t, "busybox", "sh", "-c", "cd "+dir+"/*; "+e.script)
		native = min(native, time.Since(from))
	}
	fmt.Fprintf(note, "\n%s takes %s s in the guest and %s s on this machine: %.0f times.\n", e.what, seconds(emulated), seconds(native), emulated.Seconds()/native.Seconds())
	fmt.Fprintf(raw, "boot\t%[1]s-guest\t%[2]s\nboot\t%[1]s-native\t%[3]s\n", e.name, seconds(emulated), seconds(native))
}
