package node

import (
	"context"
	"errors"
	"fmt"

	"github.com/driver-container/driver-container/node/modulestack"
	"github.com/driver-container/driver-container/node/safeload"
	"github.com/driver-container/driver-container/node/status"
)

// awaitSafeLoad waits until others have freed the node for another driver, if permission is needed.
func (n *Node) awaitSafeLoad(ctx context.Context, old status.Driver) error {
	if n.safeLoad == nil {
		return nil
	}
	show := func(ctx context.Context) error { return n.showSafeLoad(ctx, old) }
	return safeload.Waiter{Permission: n.safeLoad, Old: old.Version, Show: show, Now: n.now, Log: n.log, Warn: n.warn}.Wait(ctx)
}

// showSafeLoad sets in the status what the instance waits for, and which processes hold the driver meanwhile:
// people who drain the node need to know.
func (n *Node) showSafeLoad(ctx context.Context, old status.Driver) error {
	err := n.removable(ctx)
	busy, inUse := errors.AsType[*modulestack.InUseError](err)
	if err != nil && !inUse {
		return err
	}
	reason := fmt.Sprintf("%s: waiting for %s", n.mustGo(old), n.safeLoad)
	if busy != nil {
		n.countBlocked()
		reason += "; " + busy.Error()
	}
	n.status.Change(func(st *status.Snapshot) {
		if st.State != status.Waiting {
			n.log.Info("waiting for safe load", "reason", reason)
		}
		st.State, st.WaitsFor, st.Ready, st.Reason, st.Holders = status.Waiting, status.ForSafeLoad, false, reason, nil
		if busy != nil {
			st.Holders = busy.Holders
		}
	})
	return nil
}
