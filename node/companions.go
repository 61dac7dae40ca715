package node

import (
	"context"
	"slices"

	"github.com/driver-container/driver-container/node/status"
)

// loadCompanions loads the modules beside the driver's own that were asked for. They are never a
// reason to fail: what is missing is a warning and in the status. They are unloaded with the
// driver's modules.
func (n *Node) loadCompanions(ctx context.Context, up Served) (Served, error) {
	record := func(modules []status.Module) {
		up.Driver.Modules = modules
		n.Status.Record(up.Driver)
	}
	n.showCompanions(n.group(up.ModuleSet).Load(ctx, up.Driver.Modules, record))
	return up, ctx.Err()
}

func (n *Node) showCompanions(states []status.Companion) {
	if slices.Equal(states, n.Status.Get().Companions) {
		return
	}
	for _, c := range states {
		if c.Reason != "" {
			n.warn("%s", c.Text())
		} else {
			n.Log.Info("companion", "module", c.Name, "version", c.Version)
		}
	}
	n.Status.Companions(states)
}
