package kubernetes

import (
	"context"
	"strings"

	"github.com/driver-container/driver-container/node/status"
)

// removeTaints removes the startup taints once in a life, when the driver serves. A status is about
// this boot, so a node that was only restarted keeps them until its driver is loaded again. They
// are never added: what adds them, and what they mean, is others' business.
func (r *Reporter) removeTaints(ctx context.Context, st status.Snapshot) {
	now := r.now()
	if r.untainted || st.State != status.Serving || !st.Holding() || !r.taints.ready(now) {
		return
	}
	removed, err := r.o.Client.RemoveTaints(ctx, r.o.Node, r.o.Taints)
	r.taints.result(ctx, now, err)
	if err != nil {
		return
	}
	r.untainted = true
	if len(removed) > 0 {
		r.o.Log.Info(
			"startup taints removed from the node",
			"node",
			r.o.Node,
			"taints",
			strings.Join(removed, ", "),
		)
	}
}
