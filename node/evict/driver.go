package evict

import (
	"slices"

	"github.com/driver-container/driver-container/node"
)

// asks: the driver of this pod has the node's lock and waits for another driver to go, either for the safe-load annotation to be
// removed or for whoever holds the driver.
func (a *Agent) asks(st node.Snapshot) bool {
	return st.Pod == a.cfg.Pod && st.State == node.Waiting && st.Phase == "replace" // not node.ForLock: nothing is this pod's then
}

// underWay: it was let go on, and is between the old driver and the new one.
func (a *Agent) underWay(st node.Snapshot) bool {
	return st.Pod == a.cfg.Pod && (st.State == node.Starting || st.State == node.Waiting) &&
		slices.Contains([]string{"replace", "root", "load", "nodes", "daemons", "verify"}, st.Phase)
}

// serves: the driver of this pod is up and ready.
func (a *Agent) serves(st node.Snapshot) bool {
	return st.Pod == a.cfg.Pod && st.State == node.Serving && st.Ready && st.Up != nil && st.Up.Version == st.Wanted
}

// over: nothing comes of this start any more. A new one begins by asking again.
func (a *Agent) over(st node.Snapshot) bool {
	switch st.State {
	case node.Failed, node.Restored, node.Absent, node.Detached, "":
		return true
	}
	return st.Pod != a.cfg.Pod
}
