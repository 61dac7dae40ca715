package rehearse

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/images/progress"
	"github.com/driver-container/driver-container/images/rehearse/guest"
)

// rehearsed runs all rows on a node with faults. It requires that no process is left when all went
// well.
func rehearsed(t *testing.T, upgrade bool, f trouble) (done []Row, err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { done, err = lives(t, upgrade, f) })
	return done, err
}

func lives(t *testing.T, upgrade bool, f trouble) ([]Row, error) {
	t.Helper()
	if f.smi == 0 {
		f.smi = noDevices
	}
	n := &fakeNode{t: t, trouble: f, files: map[string]string{}, log: []string{"WARNING: before"}, tainted: f.before}
	r := &rehearsal{node: n, image: subject{name: "image", pod: ChartPod(), ours: !f.foreign}}
	if upgrade {
		r.previous = &subject{name: "previous", pod: ChartPod(), ours: !f.foreign}
	}
	done, err := r.run(t.Context())
	if err == nil && !strings.Contains(verdicts(done), "failed") {
		assert.Equalf(t, 0, len(n.left), "processes left")
	}
	return done, err
}

// verdicts are the rows' names by verdict, without those that went well.
func verdicts(done []Row) string {
	var b strings.Builder
	for _, row := range done {
		if row.Verdict != OK {
			b.WriteString(row.Name + " " + string(row.Verdict) + ": " + row.Message + "\n")
		}
	}
	return b.String()
}

func TestPassing(t *testing.T) {
	t.Parallel()
	signed := trouble{preflight: `{"name": "module-signing", "status": "ok", "finding": "signed"}`}
	done, err := rehearsed(t, false, signed)
	require.NoError(t, err)
	assert.Equal(t, "", verdicts(done))
	assert.Equal(t, 10, len(done))
	done, err = rehearsed(t, true, signed)
	require.NoError(t, err)
	assert.Equal(t, "", verdicts(done))
	assert.Equal(t, len(rows()), len(done))
	done, err = rehearsed(t, false, trouble{before: 1 << 9})
	require.NoError(t, err)
	assert.Equalf(t, "signatures skipped: preflight did not say\n", verdicts(done), "the taint of a kernel that warned while it booted")
}

// TestKernelLog: each line is judged once, also when the kernel drops the oldest ones.
func TestKernelLog(t *testing.T) {
	t.Parallel()
	for room := 1; room < 20; room++ {
		n := &logNode{}
		r := &rehearsal{node: n}
		written := 0
		for _, more := range []int{3, 0, 5, 1, 20, 0, 2} {
			for range more {
				n.lines = append(n.lines, fmt.Sprintf("[%d] line", written))
				written++
			}
			n.lines = n.lines[max(0, len(n.lines)-room):]
			got, err := r.kernelLog(t.Context())
			require.NoError(t, err)
			assert.Samef(t, n.lines[len(n.lines)-min(more, room):], got, "with room for %d", room)
		}
	}
}

// logNode is a node that has a kernel's log.
type logNode struct {
	node
	lines []string
}

func (n *logNode) Dmesg(context.Context) (string, error) {
	return strings.Join(n.lines, "\n") + "\n", nil
}

// TestCompile: who waits for a compile sees how far it is.
func TestCompile(t *testing.T) {
	t.Parallel()
	var seen []string
	observe := func(e progress.Event) {
		if e.Kind == progress.Steps {
			seen = append(seen, fmt.Sprintf("%s %d/%d", e.Name, e.Current, e.Total))
		}
	}
	synctest.Test(t, func(t *testing.T) {
		n := &fakeNode{t: t, trouble: trouble{compiles: true, smi: noDevices}, files: map[string]string{}}
		r := &rehearsal{node: n, image: subject{name: "image", pod: ChartPod(), ours: true}, observe: observe}
		done, err := r.run(t.Context())
		require.NoError(t, err)
		assert.Contains(t, done[2].Message, "compiled")
	})
	// the second line comes at the same time, which is too soon for people
	assert.Same(t, []string{"[rehearse] modules 37/477"}, seen)
}

// TestFailing: each fault fails the row that it is about, with the reason; later rows do not guess.
func TestFailing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		faults  trouble
		upgrade bool
		want    []string // the beginnings of all lines of verdicts
	}{
		"unfit": {trouble{preflight: `{"name": "kernel-limit", "status": "blocking", "finding": "6.18 is too new", "fix": "take 580"}`}, false,
			[]string{"preflight failed: kernel-limit: 6.18 is too new (fix: take 580)", "signatures skipped", "modules skipped: there is no driver: preflight stops it",
				"load skipped", "ready skipped", "device files skipped", "libraries skipped", "stop in use skipped", "restart skipped", "stop skipped"}},
		"unsigned": {trouble{preflight: `{"name": "module-signing", "status": "blocking", "finding": "no signature"}`}, false,
			[]string{"signatures failed: module-signing: no signature", "modules skipped"}},
		"no modules": {trouble{noModules: true}, false,
			[]string{"signatures skipped", "modules failed: the container ended with 11: no modules for this kernel", "load skipped: there is no driver: there are no modules"}},
		"refused": {trouble{refuses: true, logs: "nvidia: Unknown symbol x"}, false,
			[]string{"signatures skipped", "load failed: the container ended with 13: the kernel refused", "ready skipped"}},
		"a warning of the kernel": {trouble{logs: "WARNING: CPU: 0 PID: 1 at nvidia.c:3"}, false,
			[]string{"signatures skipped", "load failed: the kernel's log has 1 lines about faults; else: 535.261.03 is loaded"}},
		"hangs":     {trouble{hangs: true}, false, []string{"signatures skipped", "load failed: nothing came within 10m0s", "ready skipped"}},
		"taint":     {trouble{taint: 1 << 9}, false, []string{"signatures skipped", "load failed: 535.261.03 is loaded, and the kernel is tainted with W (PWO)"}},
		"not ready": {trouble{notReady: true}, false, []string{"signatures skipped", "ready failed: the driver is loaded and not ready: a daemon is down", "device files skipped"}},
		"no devices": {trouble{noDevices: true}, false, []string{"signatures skipped", "device files failed: not in /run/nvidia/driver/dev: /dev/nvidia0 c3:0",
			"stop in use failed: no program can use the driver: can't open /run/nvidia/driver/dev/nvidiactl", "restart skipped"}},
		"mixed":           {trouble{library: "470.1"}, false, []string{"signatures skipped", "libraries failed: the kernel has 535.261.03, and /run/nvidia/driver has libcuda.so.470.1"}},
		"smi":             {trouble{smi: 18}, false, []string{"signatures skipped", "libraries failed: nvidia-smi ends with 18"}},
		"takes away":      {trouble{takesAway: true}, false, []string{"signatures skipped", `stop in use failed: the driver in use is "", not detached`, "restart skipped", "stop skipped"}},
		"loads again":     {trouble{loadsAgain: true}, false, []string{"signatures skipped", "restart failed: the driver was loaded again"}},
		"leaves":          {trouble{leaves: true}, false, []string{"signatures skipped", "stop failed: the stop left mounts /run/nvidia/driver"}},
		"stop code":       {trouble{stopCode: 1}, false, []string{"signatures skipped", "stop in use failed: the container ended with 1, not 0"}},
		"no way back":     {trouble{noWay: true}, true, []string{"signatures skipped", `rollback failed: the state is "failed", the kernel has "": not 470.256.02 again`}},
		"impatient":       {trouble{impatient: true}, true, []string{"signatures skipped", "upgrade in use failed: the new driver did not wait"}},
		"not ready later": {trouble{notLater: true}, true, []string{"signatures skipped", "upgrade in use failed: the driver is loaded and not ready: a daemon is down"}},
		"old":             {trouble{oldNotReady: true}, true, []string{"previous driver failed: the driver is loaded and not ready: a daemon is down", "signatures skipped", "modules skipped: there is no driver: the previous driver does not serve"}},
		"foreign": {trouble{foreign: true}, true, []string{"preflight skipped: the image has no driver-entrypoint", "signatures skipped", "modules skipped: its own script",
			"stop in use skipped", "restart skipped", "rollback skipped", "upgrade in use skipped"}},
		"foreign alone": {trouble{foreign: true}, false, []string{"preflight skipped: the image has no driver-entrypoint", "signatures skipped", "modules skipped: its own script",
			"stop in use skipped", "restart skipped"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			done, err := rehearsed(t, c.upgrade, c.faults)
			require.NoError(t, err)
			got := strings.Split(strings.TrimSpace(verdicts(done)), "\n")
			for i, want := range c.want {
				if i >= len(got) || !strings.HasPrefix(got[i], want) {
					t.Errorf("verdicts %q, want %q at %d", got, want, i)
				}
			}
		})
	}
}

// TestGone: a guest that is gone is no verdict about a driver.
func TestGone(t *testing.T) {
	t.Parallel()
	done, err := rehearsed(t, false, trouble{dies: true})
	if !errors.Is(err, errGone) || !strings.Contains(err.Error(), `"load"`) {
		t.Errorf("%v", err)
	}
	assert.Equal(t, 3, len(done))
}

// TestDiskLost: an error of the guest's disk, which is a file here, is no verdict about a driver.
func TestDiskLost(t *testing.T) {
	t.Parallel()
	logs := "Buffer I/O error on dev vdb, logical block 7\nI/O error, dev vdb, sector 8 op 0x1:(WRITE)"
	for name, f := range map[string]trouble{"goes on": {logs: logs}, "fails": {logs: logs, refuses: true}} {
		done, err := rehearsed(t, false, f)
		assert.ErrorContainsf(t, err, `rehearse the row "load": the guest lost data of its disk (I/O error, dev vdb, sector 8 op 0x1:(WRITE)): is the disk full`, "%s", name)
		assert.Equal(t, 3, len(done))
	}
}

// TestKeep: the folder is made before anything is rehearsed, or it is refused; files of an earlier rehearsal do not stay.
func TestKeep(t *testing.T) {
	t.Parallel()
	q := Request{Keep: filepath.Join(t.TempDir(), "a/b")}
	require.NoError(t, q.Check())
	for _, name := range []string{"kernel.log", "driver.log", "of the user"} {
		testfile.Write(t, filepath.Join(q.Keep, name), "old")
	}
	require.NoError(t, q.keepConsole(fmt.Errorf("wrapped: %w", &guest.BootError{Err: errGone, Console: "panic"})))
	for name, want := range map[string]string{"console.log": "panic", "kernel.log": "", "driver.log": "", "of the user": "old"} {
		assert.Equal(t, want, string(require.Value(os.ReadFile(filepath.Join(q.Keep, name)))(t)))
	}
	for _, dir := range []string{filepath.Join(q.Keep, "console.log"), filepath.Join(q.Keep, "console.log/x"), "/proc/x"} {
		err := Request{Keep: dir}.Check()
		assert.ErrorContains(t, err, "--keep: ")
		assert.Equal(t, failure.Usage, failure.KindOf(err))
	}
}

func TestTaint(t *testing.T) {
	t.Parallel()
	for value, want := range map[uint64]string{0: "|", 1: "P|", 4097: "PO|", 12289: "POE|", 1 << 7: "D|D", 1 << 30: "|0x40000000", 77825: "POEX|", 1<<31 | 1: "P|"} {
		all, unexpected := taintLetters(value)
		assert.Equal(t, want, all+"|"+unexpected)
	}
}

func TestFaults(t *testing.T) {
	t.Parallel()
	lines := []string{
		"nvidia: loading out-of-tree module taints kernel.",
		"NVRM: loading NVIDIA UNIX x86_64 Kernel Module  535.261.03",
		"NVRM: GPU 0000:00:05.0: RmInitAdapter failed! (0x62:0x25:2416)",
		"NVRM: GPU 0000:00:05.0: rm_init_adapter failed, device minor number 0",
		"NVRM: GPU 0000:00:05.0: Failed to copy vbios to system memory.",
	}
	assert.Equal(t, 0, len(faults(lines)))
	for _, line := range []string{
		"Oops: 0002 [#1] SMP", "nvidia: Unknown symbol drm_x (err -2)", "nvidia: disagrees about version of symbol module_layout",
		"nvidia: version magic '6.1.0' should be '6.12.0'", "NVRM: API mismatch: the client has", "NVRM: Xid (PCI:0000:05:00): 79,",
	} {
		assert.Equalf(t, 1, len(faults([]string{line})), "%s", line)
	}
}

// TestCleaned: what a guest says gets into a report in bounds, on one line, without what a terminal obeys.
func TestCleaned(t *testing.T) {
	t.Parallel()
	got := message("a\x1b[2J\nb\r" + strings.Repeat("x", 5000))
	assert.Equal(t, true, len(got) < 2100 && strings.HasPrefix(got, `a\x1b[2J b `))
	lines := make([]string, 100)
	lines[99] = "last\x07" + strings.Repeat("é", 500)
	cleaned := logLines(last(lines))
	assert.Equal(t, maxLines, len(cleaned))
	assert.Equal(t, true, strings.HasPrefix(cleaned[maxLines-1], `last\a`) && len(cleaned[maxLines-1]) < 310)
}
