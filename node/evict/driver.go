package evict

import (
	"slices"

	"github.com/driver-container/driver-container/node/status"
)

// asks: the driver of this pod has the node's lock and waits for another driver to go, either for the safe-load annotation to be
// removed or for whoever holds the driver.
func (a *Agent) asks(st status.Snapshot) bool {
	return st.Pod == a.cfg.Pod && st.State == status.Waiting && st.Phase == "replace" // not node.ForLock: nothing is this pod's then
}

// underWay: it was let go on, and is between the old driver and the new one.
func (a *Agent) underWay(st status.Snapshot) bool {
	return st.Pod == a.cfg.Pod && (st.State == status.Starting || st.State == status.Waiting) &&
		slices.Contains([]string{"replace", "root", "load", "nodes", "daemons", "verify"}, st.Phase)
}

// serves: the driver of this pod is up and ready.
func (a *Agent) serves(st status.Snapshot) bool {
	return st.Pod == a.cfg.Pod && st.State == status.Serving && st.Ready && st.Up != nil && st.Up.Version == st.Wanted
}

// over: nothing comes of this start any more. A new one begins by asking again.
func (a *Agent) over(st status.Snapshot) bool {
	switch st.State {
	case status.Failed, status.Restored, status.Absent, status.Detached, "":
		return true
	}
	return st.Pod != a.cfg.Pod
}
