package scenarios

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/lab"
	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/logtest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/tool"
)

// Test26Start measures the project's own part of a start on this machine, with a cached set of modules and
// with a baked folder, for ci/bench/run: boot.tsv in DRIVER_E2E_KEEP. A guest is emulated and would measure the
// emulation. RUNS (default 1) times three starts of each kind.
func Test26Start(t *testing.T) {
	lab.Gate(t)
	n := newNative(t, lab.Kernel(t, "debian12"))
	runs := 3 * require.Value(strconv.Atoi(cmp.Or(os.Getenv("RUNS"), "1")))(t)
	var raw strings.Builder
	for _, k := range []struct{ name, state string }{{"start", n.cached(t)}, {"start-baked", n.baked(t)}} {
		own, log := n.starts(t, k.state, runs)
		if k.name == "start-baked" {
			assert.Equalf(t, 0, strings.Count(log, "driver root staged"), "%s", log)
		}
		for _, took := range own {
			fmt.Fprintf(&raw, "boot\t%s-native\t%.3f\n", k.name, took.Seconds())
		}
	}
	keep(t, "boot.tsv", raw.String())
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

// baked returns a state folder that was baked on this machine.
func (n native) baked(t *testing.T) string {
	t.Helper()
	state := n.cached(t)
	making.Lock()
	defer making.Unlock()
	out, err := d535.run(t, n.kernel, state, "bake", "--into", "/var/lib/nvidia-driver", "--kernel", n.kernel.Release, "--kernel-module-type", closed, "--fetch-headers=false")
	require.NoErrorf(t, err, "bake: %s", out)
	return state
}

// starts returns the project's own part of that many starts, from exec to ready without what the fake kernel
// took, and what they and the one before them logged.
func (n native) starts(t *testing.T, state string, runs int) (all []time.Duration, log string) {
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
		all = append(all, time.Duration((ready-kernel)*float64(time.Second)))
		t.Log(strings.TrimSpace(line))
	}
	return all, log
}
