package cluster

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/driver-container/driver-container/ci/cluster/sample"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

// StateTable samples the node several times a second and records the changes. The test fails if the state
// table of package sample was violated at any time.
type StateTable struct {
	c       *Cluster
	samples []sample.Sample
	read    int // number of lines of the node's file that are in samples
	allowed []func(sample.Sample) bool
}

const (
	watcherPath = "/var/lib/watcher/watcher"
	watcherLog  = "/run/watcher.log"
)

// StateTable starts a watch that lasts until the end of the test.
func (c *Cluster) StateTable() *StateTable {
	c.t.Helper()
	w := &StateTable{c: c}
	c.Upload(goProgram(c.t, "watcher"), watcherPath, 0o755)
	w.launch()
	c.watches = append(c.watches, w)
	c.t.Cleanup(func() {
		if c.t.Failed() {
			w.c.t.Logf("the state table:\n%s", w.String())
			return
		}
		w.Check()
	})
	return w
}

// launch starts the watcher on the node.
func (w *StateTable) launch() {
	w.c.t.Helper()
	w.read = 0
	w.c.Node("systemd-run --quiet --collect --unit=watcher --property=StandardOutput=truncate:" + watcherLog + " " + watcherPath)
}

// collect reads the watcher's samples so far.
func (w *StateTable) collect() {
	w.c.t.Helper()
	for line := range strings.Lines(w.c.Node(fmt.Sprintf("tail -n +%d %s", w.read+1, watcherLog))) {
		var s sample.Sample
		if !strings.HasSuffix(line, "\n") {
			break // incomplete: the watcher is writing it
		}
		require.NoError(w.c.t, json.Unmarshal([]byte(line), &s))
		w.samples = append(w.samples, s)
		w.read++
	}
}

// Check fails the test if the table has been violated so far.
func (w *StateTable) Check() {
	w.c.t.Helper()
	w.collect()
	for _, s := range w.samples {
		if wrong := s.Judge(); len(wrong) > 0 && !w.allows(s) {
			w.c.t.Errorf("the state table is violated: %s", strings.Join(wrong, "; "))
		}
	}
	if len(w.samples) == 0 {
		w.c.t.Error("the watcher saw nothing: see `systemctl status watcher` on the node")
	}
}

func (w *StateTable) allows(s sample.Sample) bool {
	for _, f := range w.allowed {
		if f(s) {
			return true
		}
	}
	return false
}

// Samples returns the samples so far, one for each change.
func (w *StateTable) Samples() []sample.Sample {
	w.c.t.Helper()
	w.collect()
	return w.samples
}

// String returns a line for each change.
func (w *StateTable) String() string {
	var b strings.Builder
	if r, err := w.c.TryNode(nodeLimit, "cat "+watcherLog); err == nil {
		b.WriteString(r)
	}
	return b.String()
}
