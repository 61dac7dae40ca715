package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/moby/sys/atomicwriter"

	"github.com/driver-container/driver-container/node/lock"
	"github.com/driver-container/driver-container/node/status"
)

// takeLock makes this the only instance on the node. Before that nothing is written anywhere.
func (n *Node) takeLock(ctx context.Context) error {
	lock, err := n.TakeLock(ctx, n.waitsForLock)
	if err != nil {
		return err
	}
	n.lock = lock
	old := n.status.Predecessor()
	n.prev = onHost(old.Up)
	if old.State != "" && old.State != status.Absent {
		n.log.Info(
			"predecessor found",
			"left",
			describe(old.Up),
			"state",
			old.State,
			"reason",
			old.Reason,
		)
	}
	n.status.Change(func(st *status.Snapshot) {
		st.State = status.Starting
		st.Phase = ""
		st.Reason = ""
		st.Up = old.Up
		st.LastFailure = old.LastFailure
	})
	return errors.Join(n.markers.NotReady(), n.markers.RemoveUnfinished())
}

// waitsForLock sets in this instance's own status what it waits for. The node's status file belongs
// to the holder.
func (n *Node) waitsForLock(h lock.Holder) {
	n.status.ChangeUnsaved(func(st *status.Snapshot) {
		st.State, st.WaitsFor, st.Phase, st.Reason = status.Waiting, status.ForLock, status.LockPhase, "waiting for the node's lock, held by "+h.String()
	})
}

func describe(d *status.Driver) string {
	if d == nil {
		return "no driver up"
	}
	return fmt.Sprintf("driver %s (%s) up", d.Version, d.Flavour)
}

// signsOfLife writes the instance's file, and touches it until end is closed.
func (n *Node) signsOfLife(end <-chan struct{}) error {
	if n.instanceFile == "" {
		return nil
	}
	if err := atomicwriter.WriteFile(n.instanceFile, []byte(n.status.Get().Instance+"\n"), 0o644); err != nil {
		return fmt.Errorf("write the name of this instance: %w", err)
	}
	go n.beat(end)
	return nil
}

// beat touches the instance's file until end is closed: the liveness probe sees by it that the
// process runs, however long a phase takes.
func (n *Node) beat(end <-chan struct{}) {
	for {
		select {
		case <-end:
			return
		case now := <-time.After(untilNext(n.now())):
			_ = os.Chtimes(n.instanceFile, now, now)
		}
	}
}
