package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/driver-container/driver-container/node/config"
	"github.com/driver-container/driver-container/node/daemons"
	"github.com/driver-container/driver-container/node/preflight"
	"github.com/driver-container/driver-container/node/status"
)

// checkEvery is the pause between two checks of a node that is not fit for the driver, if nothing
// changes.
const checkEvery = time.Minute

// preflight returns an error with everything that is in the way of the driver, before anything is
// changed. With config.PreflightWait it waits instead until nothing is in the way.
func (n *Node) preflight(ctx context.Context, facts Facts) (Facts, error) {
	begin := time.Now()
	// the same instance again: it finds most of the same
	again := n.saying(slog.New(onlyWarnings{n.Log.Handler()}), n.Status)
	now := n
	last := ""
	for {
		before := n.fingerprint()
		err := fitness{Node: now, Facts: facts}.check(ctx)
		if err == nil && last != "" {
			n.Status.Set(status.Starting, "")
			n.Log.Info("nothing prevents the driver any more", "driver", facts.Want.Driver,
				"flavour", facts.Want.Flavour, "gpus", len(facts.GPUs),
				"duration", time.Since(begin).Round(time.Second))
		}
		blocked := errors.As(err, new(*preflight.BlockedError))
		if !blocked || n.cfg.OnPreflight != config.PreflightWait {
			return facts, err
		}
		if ctx.Err() != nil {
			return facts, ctx.Err()
		}
		// recorded too: the node has no driver because a start cannot succeed
		n.Status.Fail(err)
		n.Status.Wait(status.ForPreflight, err.Error(), nil)
		if err.Error() != last {
			last = err.Error()
			n.Log.Error("waiting for a fit node", "every", checkEvery, "reason", err)
		}
		err = n.awaitChange(ctx, before)
		if err != nil {
			return facts, err
		}
		if n.Rechoose != nil {
			choice, other := n.Rechoose(ctx)
			if other {
				return facts, ErrOther
			}
			n.Status.Change(func(st *status.Snapshot) { st.Choice = choice })
		}
		now = again
		facts, err = again.survey(ctx, facts.Previous)
		if err != nil {
			return facts, err
		}
	}
}

// onlyWarnings leaves out what is less than a warning.
type onlyWarnings struct{ slog.Handler }

func (onlyWarnings) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelWarn }

// awaitChange returns nil when the node should be checked again: after some time, or as soon as the
// fingerprint is not the one from before.
func (m Machine) awaitChange(ctx context.Context, before string) error {
	for begin := time.Now(); time.Since(begin) < checkEvery; {
		if !daemons.Sleep(ctx, watchEvery) {
			return ctx.Err()
		}
		if m.fingerprint() != before {
			return nil
		}
	}
	return nil
}

// fingerprint returns as text what is cheap to see and prevents many starts: the GPUs, the drivers
// that they are bound to, and whether another driver is loaded.
func (m Machine) fingerprint() string {
	gpus, err := m.Hardware.GPUs()
	facts := []any{gpus, err}
	for _, name := range []string{"nvidia", "nouveau"} {
		live, err := m.Kernel.Module(name)
		facts = append(facts, live.Version, live.SrcVersion, err)
	}
	return fmt.Sprint(facts...)
}
