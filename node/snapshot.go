package node

import (
	"context"
	"fmt"

	"github.com/driver-container/driver-container/node/probe"
)

// Snapshot is what is known now, also while the instance waits for the lock and has no file to say it in (Status.Holding). What it points
// to is not changed any more.
func (n *Node) Snapshot() Status { return n.board.get() }

// Changed has an element when Snapshot may say something new. It is for one listener, who may be slow: what happened meanwhile is one
// element.
func (n *Node) Changed() <-chan struct{} { return n.board.changed }

// AskUsage asks the driver for memory and utilisation of its GPUs while it serves; ErrNotReady else. For metrics.
func (n *Node) AskUsage(ctx context.Context) (probe.Answer, error) {
	if st := n.board.get(); st.State != Serving && st.State != Degraded {
		return probe.Answer{Devices: []probe.Device{}}, fmt.Errorf("%w: %s", ErrNotReady, st.State)
	}
	return n.hardware.AskUsage(ctx)
}
