package evict

import (
	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/node/status"
)

// wantsFreeNode says that the driver of this pod has the node's lock and waits for another driver
// to go: either for the safe-load annotation to be removed or for the holders of the driver.
func (a *Agent) wantsFreeNode(st status.Snapshot) bool {
	// The phase excludes status.ForLock: a pod that waits for the lock does not own the node yet.
	return st.Pod == a.cfg.Pod && st.State == status.Waiting && st.Phase == status.ReplacePhase
}

// isStarting says that the driver was allowed to continue and is between the old driver and the new
// one.
func (a *Agent) isStarting(st status.Snapshot) bool {
	return st.Pod == a.cfg.Pod && (st.State == status.Starting || st.State == status.Waiting) &&
		status.Replaces(st.Phase)
}

// saysServing says that the status is of the driver of this pod, up and ready.
func (a *Agent) saysServing(st status.Snapshot) bool {
	return st.Pod == a.cfg.Pod && st.State == status.Serving && st.Ready && st.Up != nil &&
		st.Up.Version == st.Wanted
}

// isServing is saysServing, unless lock, modules or driver root contradict the status: a driver
// that was killed cannot correct it. This container sees all of them: it has /run/nvidia, with
// propagation, and sysfs.
func (a *Agent) isServing(st status.Snapshot) bool {
	return a.saysServing(st) && st.Confirm(a.cfg.Run, kmod.System{}) == nil
}

// startEnded says that this start of the driver will not succeed any more. A new start begins by
// asking again.
func (a *Agent) startEnded(st status.Snapshot) bool {
	switch st.State {
	case status.Failed, status.Restored, status.Absent, status.Detached, "":
		return true
	}
	return st.Pod != a.cfg.Pod
}
