package evict

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/driver-container/driver-container/node/status"
)

// attempt frees the node and stays until the driver serves. Whatever happens, what it changed is put back at its end.
func (a *Agent) attempt(ctx context.Context) (err error) {
	a.unsettled = true
	defer func() { err = a.finish(ctx, err) }()
	r, err := a.take(ctx)
	if err != nil {
		return err
	}
	a.tell(ctx, reasonStarted, "freeing node %s for its driver: %s", a.cfg.Node, r.changes())
	deadline := time.Now().Add(a.cfg.Timeout)
	var freed bool
	for {
		st := a.watch.look()
		if a.serves(st) {
			return nil
		}
		if a.over(st) {
			return fmt.Errorf("the driver did not come up: state %q, %s", st.State, st.Reason)
		}
		var l left
		if a.asks(st) {
			if l, err = a.free(ctx, r); errors.Is(err, errLost) {
				return err
			}
			if err == nil && l.none() && !freed {
				freed, a.freed, deadline = true, st.Instance, time.Now().Add(a.cfg.Timeout)
				a.say("node %s is free, the driver goes on", a.cfg.Node)
			}
		}
		if time.Now().After(deadline) {
			return a.late(st, l, freed, err)
		}
		if !pause(ctx, every) {
			return ctx.Err()
		}
	}
}

// free does one sweep, and lets the driver go on when nothing is left.
func (a *Agent) free(ctx context.Context, r record) (left, error) {
	n, err := a.getNode(ctx)
	if err == nil {
		err = a.mine(n)
	}
	if err != nil {
		return left{}, err
	}
	l, err := a.sweep(ctx, r.Labels, false)
	if err == nil && l.none() {
		err = a.release(ctx)
	}
	return l, err
}

// late is why an attempt is given up.
func (a *Agent) late(st status.Snapshot, l left, freed bool, err error) error {
	switch {
	case err != nil:
		return fmt.Errorf("after %s: %w", a.cfg.Timeout, err)
	case !l.none() || !freed:
		return fmt.Errorf("node %s is not free after %s: %s", a.cfg.Node, a.cfg.Timeout, l)
	}
	parts := []string{fmt.Sprintf("node %s is free of GPU pods, but driver %s does not serve after %s: state %q", a.cfg.Node, st.Wanted, a.cfg.Timeout, st.State), st.Reason, l.String()}
	return errors.New(strings.Join(slices.DeleteFunc(parts, func(p string) bool { return p == "" }), ", "))
}

// finish puts back what an attempt changed and tells how it went. Where that fails it is tried again by later rounds.
func (a *Agent) finish(ctx context.Context, cause error) error {
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastCalls)
	defer cancel()
	done, err := a.putBack(bounded, a.notMine)
	a.unsettled = err != nil
	switch {
	case err != nil:
		return errors.Join(cause, err)
	case ctx.Err() != nil:
		a.say("stopped: put back: %s", done)
		return nil
	case cause != nil && done != "":
		return fmt.Errorf("%w; put back (%s), tried again in %s", cause, done, a.cfg.RetryAfter)
	case cause == nil:
		a.tell(ctx, reasonDone, "driver %s serves node %s; put back: %s", a.watch.look().Wanted, a.cfg.Node, done)
	}
	return cause
}
