package status

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/goldentest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/node/lock"
)

func TestWriteText(t *testing.T) {
	t.Parallel()
	run := t.TempDir()
	held := require.Value(lock.Acquire(t.Context(), lock.Options{Run: run, Self: lock.Holder{PID: 7, Pod: "gpu/driver-old", Since: noon}}))(t)
	var out bytes.Buffer
	var node kmod.System // of a machine without a driver, of which nothing is visible
	node.Sys, node.Proc = filepath.Join(run, "sys"), filepath.Join(run, "proc")
	write := func(what string, st Snapshot, instances ...kmod.Holder) {
		t.Helper()
		fmt.Fprintf(&out, "--- %s\n", what)
		require.NoError(t, WriteText(&out, st, run, node, instances))
	}
	write("degraded, and another one waits", sample(), kmod.Holder{PID: 7, Container: "a"}, kmod.Holder{PID: 9, Container: "b", Pod: "uid", PodName: "driver-new", PodNamespace: "gpu"},
		kmod.Holder{PID: 10, Container: "c", PodName: "driver-old", PodNamespace: "gpu"}, kmod.Holder{PID: 11}, kmod.Holder{PID: 12, Container: "a"})
	holders := []kmod.Holder{{PID: 4711, Command: "python3", Pod: "u", PodName: "train-0", PodNamespace: "team", Files: []string{"/dev/nvidia0"}},
		{PID: 4712, Command: "python3", Pod: "u", PodName: "train-0", PodNamespace: "team", Files: []string{"/dev/nvidia0"}}, {PID: 3, Command: "Xorg", Files: []string{"/dev/dri/card0"}}}
	write("waiting for holders", Snapshot{State: Waiting, WaitsFor: ForHolders, Phase: "replace", Reason: "driver 470 must go", Holders: holders})
	write("waiting for safe load", Snapshot{State: Waiting, WaitsFor: ForSafeLoad, Phase: "replace", Reason: "waiting for safe load"})
	write("waiting for a fit node", Snapshot{State: Waiting, WaitsFor: ForPreflight, Phase: "preflight", Reason: "this node cannot run the driver as it is:\nheaders: no headers. Install them"})
	write("waiting for a Driver Toolkit", Snapshot{State: Waiting, WaitsFor: ForToolkit, Phase: "modules", Reason: "waiting for the Driver Toolkit container to start"})
	write("stopping", Snapshot{State: Stopping, Holders: holders[:1]})
	write("serving, a GPU does not work, and another one waits", Snapshot{State: Serving, Ready: true, GPUs: sample().GPUs}, kmod.Holder{PID: 7}, kmod.Holder{PID: 9})
	write("compiling", Snapshot{State: Starting, Phase: "modules"})
	require.NoError(t, held.Release())
	testfile.Tree(t, run, map[string]string{"sys/module/nvidia/srcversion": "DEF\n", "sys/module/nvidia/initstate": "live\n", "proc/modules": ""})
	write("killed, and another build is loaded", sample())
	require.NoError(t, os.RemoveAll(filepath.Join(run, "sys/module/nvidia")))
	write("killed, and unloaded by the driver manager", sample())
	write("failed", Snapshot{State: Failed, Reason: "no", LastFailure: &Failure{Time: noon, Wanted: "535.261.03", Pod: "gpu/driver-x", Reason: "no"}})
	write("absent", Snapshot{Schema: Schema, State: Absent})
	got := strings.ReplaceAll(out.String(), run, "/run/nvidia")
	goldentest.Compare(t, "testdata/status.txt", got)

	run = t.TempDir() // with a lock that cannot be looked at
	require.NoError(t, os.Symlink("/nowhere", lock.Path(run)))
	out.Reset()
	write("lock not seen", Snapshot{State: Serving, Ready: true})
	assert.Equalf(t, false, strings.Contains(out.String(), "was killed"), "%s", out.String())
}
