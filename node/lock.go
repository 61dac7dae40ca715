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
func (n *Node) takeLock(ctx context.Context, _ Held) (Held, error) {
	held, err := n.TakeLock(ctx, func(h lock.Holder) {
		n.Status.Lock(status.Waiting, "waiting for the node's lock, held by "+h.String())
	})
	if err != nil {
		return Held{}, err
	}
	old := n.Status.Predecessor()
	if old.State != "" && old.State != status.Absent {
		n.Log.Info("predecessor found", "left", describe(old.Up), "state", old.State,
			"reason", old.Reason)
	}
	n.Status.Begin(old)
	for _, text := range n.Warnings {
		n.warn("%s", text)
	}
	err = errors.Join(n.markers.NotReady(), n.markers.RemoveUnfinished())
	return Held{Lock: held, Previous: onHost(old.Up)}, err
}

func describe(d *status.Driver) string {
	if d == nil {
		return "no driver up"
	}
	return fmt.Sprintf("driver %s (%s) up", d.Version, d.Flavour)
}

// signsOfLife writes the instance's file, and touches it until end is closed: the liveness probe
// sees by it that the process runs, however long a phase takes.
func signsOfLife(file, instance string, end <-chan struct{}) error {
	if file == "" {
		return nil
	}
	err := atomicwriter.WriteFile(file, []byte(instance+"\n"), 0o644)
	if err != nil {
		return fmt.Errorf("write the name of this instance: %w", err)
	}
	go func() {
		for {
			select {
			case <-end:
				return
			case now := <-time.After(untilNext(time.Now())):
				_ = os.Chtimes(file, now, now)
			}
		}
	}()
	return nil
}
