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
func (n *Node) preflight(ctx context.Context) error {
	begin := n.now()
	log := n.log
	last := ""
	defer func() { n.log = log }()
	for said := 0; ; {
		before := n.fingerprint()
		err := n.checkNode(ctx)
		warnings := n.status.Get().Warnings
		if last != "" { // n.log is silent
			for _, text := range warnings[said:] {
				log.Warn(text) //nolint:sloglint // the sentence is also in the status
			}
		}
		said = len(warnings)
		if n.cfg.OnPreflight != config.PreflightWait ||
			err != nil && !errors.As(err, new(*preflight.BlockedError)) {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err == nil {
			break
		}
		n.showBlocked(err)
		if text := err.Error(); text != last {
			last = text
			log.Error("waiting for a fit node", "every", checkEvery, "reason", err)
			n.log = slog.New(slog.DiscardHandler) // the next checks find most of the same
		}
		if err := n.awaitChange(ctx, before); err != nil {
			return err
		}
		if err := n.survey(ctx); err != nil {
			return err
		}
	}
	if last != "" {
		n.status.Set(status.Starting, "")
		log.Info(
			"nothing prevents the driver any more",
			"driver",
			n.want.Driver,
			"flavour",
			n.want.Flavour,
			"gpus",
			len(n.gpus),
			"duration",
			n.now().Sub(begin).Round(time.Second),
		)
	}
	return nil
}

// checkNode runs the checks once.
func (n *Node) checkNode(ctx context.Context) error {
	checks := n.Hardware.Preflight(ctx, n.facts())
	for _, c := range checks {
		if c.Status == preflight.Warning {
			n.warn("preflight: %s: %s. %s", c.Name, c.Finding, c.Fix)
		}
	}
	err := preflight.Blocking(checks)
	if err != nil {
		n.leaveCertificate(checks)
	}
	return err
}

// showBlocked sets in the status what the instance waits for. The failure is recorded too: the node
// has no driver because a start cannot succeed.
func (n *Node) showBlocked(err error) {
	n.status.Change(func(st *status.Snapshot) {
		st.State, st.WaitsFor, st.Ready, st.Reason, st.LastFailure = status.Waiting, status.ForPreflight, false, err.Error(), n.failure(
			err,
		)
	})
}

// awaitChange returns nil when the node should be checked again: after some time, or as soon as the
// fingerprint is not the one from before.
func (n *Node) awaitChange(ctx context.Context, before string) error {
	for end := n.now().Add(checkEvery); n.now().Before(end); {
		if !daemons.Sleep(ctx, watchEvery) {
			return ctx.Err()
		}
		if n.fingerprint() != before {
			return nil
		}
	}
	return nil
}

// fingerprint returns as text what is cheap to see and prevents many starts: the GPUs, the drivers
// that they are bound to, and whether another driver is loaded.
func (n *Node) fingerprint() string {
	gpus, err := n.Hardware.GPUs()
	facts := []any{gpus, err}
	for _, name := range []string{"nvidia", "nouveau"} {
		m, err := n.Kernel.Module(name)
		facts = append(facts, m.Version, m.SrcVersion, err)
	}
	return fmt.Sprint(facts...)
}
