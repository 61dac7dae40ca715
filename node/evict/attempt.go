package evict

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/node/daemons"
	"github.com/driver-container/driver-container/node/kubernetes"
	"github.com/driver-container/driver-container/node/status"
)

// progress is what an attempt has reached.
type progress struct {
	deadline time.Time
	sweepAt  time.Time   // the server asks not to be asked before
	freed    bool        // the driver was allowed to continue
	left     sweepResult // what the last sweep has left
	err      error       // of the last sweep
}

// attempt frees the node and stays until the driver serves. Then it undoes its changes, whatever
// has happened. found is what a trial has found on the node.
func (a *Agent) attempt(ctx context.Context, found sweepResult) error {
	a.mayHaveRecord = true
	a.history.begin()
	p := &progress{deadline: time.Now().Add(a.cfg.Timeout)}
	err := a.freeNode(ctx, p, found)
	return a.finish(ctx, p, err)
}

// freeNode returns when the driver serves, or why the attempt is given up.
func (a *Agent) freeNode(ctx context.Context, p *progress, found sweepResult) error {
	r, err := a.prepareNode(ctx, found)
	if err != nil {
		return err
	}
	a.report(ctx, reasonStarted, "freeing node %s for its driver: %s", a.cfg.Node, r.changes())
	for {
		serves, err := a.step(ctx, p)
		if serves || err != nil {
			return err
		}
		if !daemons.Sleep(ctx, sweepInterval) {
			return ctx.Err()
		}
	}
}

// step looks at the driver, and at the node as long as the driver waits for it. An error says why
// the attempt is given up.
func (a *Agent) step(ctx context.Context, p *progress) (serves bool, err error) {
	st := a.driver()
	if a.isServing(st) {
		return true, nil
	}
	if a.startEnded(st) {
		return false, fmt.Errorf("the driver did not come up: state %q, %s", st.State, st.Reason)
	}
	if !a.wantsFreeNode(st) {
		p.freed = true
		p.left = sweepResult{}
		p.err = nil
	} else if !time.Now().Before(p.sweepAt) {
		err = a.sweepOnce(ctx, p, st)
		if err != nil {
			return false, err
		}
	}
	if time.Now().After(p.deadline) {
		return false, a.timeoutError(st, p)
	}
	return false, nil
}

// sweepOnce frees the node further. An error says that no other sweep can succeed.
func (a *Agent) sweepOnce(ctx context.Context, p *progress, st status.Snapshot) error {
	left, free, err := a.free(ctx)
	p.err = err
	if errors.Is(err, errLost) {
		return err
	}
	wait := max(left.after, kubernetes.RetryAfter(err))
	if err != nil || len(left.refused) > 0 {
		wait = max(wait, blockedRetry)
	}
	p.sweepAt = time.Now().Add(wait)
	if err != nil {
		return nil //nolint:nilerr // it is tried again until the deadline
	}
	p.left = left
	if left.returned {
		return fmt.Errorf("node %s does not become free: %s", a.cfg.Node, left)
	}
	if free && !p.freed {
		p.freed = true
		p.deadline = time.Now().Add(a.cfg.Timeout)
		a.grantedTo = st.Instance
		a.log.Info("the node is free, the driver goes on", "node", a.cfg.Node)
	}
	return nil
}

// free does one sweep, pauses the daemons whose turn it is, and lets the driver continue when no
// GPU user is left.
func (a *Agent) free(ctx context.Context) (l sweepResult, free bool, err error) {
	n, err := a.getNode(ctx)
	if err != nil {
		return l, false, err
	}
	r, err := a.ownRecord(n)
	if err != nil {
		return l, false, err
	}
	labels := a.toPause(n.Metadata.Labels)
	maps.Copy(labels, r.Labels)
	l, err = a.sweep(ctx, labels, false)
	if err != nil {
		return l, false, err
	}
	switch {
	case len(a.nextLabels(r, n.Metadata.Labels, l)) > 0:
		return l, false, a.pauseNext(ctx, l)
	case !l.isFree():
		return l, false, nil
	}
	return l, true, a.allowDriver(ctx)
}

// timeoutError says why an attempt is given up.
func (a *Agent) timeoutError(st status.Snapshot, p *progress) error {
	switch {
	case p.err != nil:
		return fmt.Errorf("after %s: %w", a.cfg.Timeout, p.err)
	case !p.left.isFree() || !p.freed:
		return fmt.Errorf("node %s is not free after %s: %s", a.cfg.Node, a.cfg.Timeout, p.left)
	}
	text := fmt.Sprintf(
		"node %s is free of GPU pods, but driver %s does not serve after %s: state %q",
		a.cfg.Node,
		st.Wanted,
		a.cfg.Timeout,
		st.State,
	)
	err := st.Confirm(a.cfg.Run, kmod.System{})
	if err != nil && a.saysServing(st) {
		return fmt.Errorf("%s, %w", text, err)
	}
	if st.Reason != "" {
		text += ", " + st.Reason
	}
	return errors.New(text)
}

// finish undoes the changes of an attempt and reports the result. When undoing fails, later rounds
// try again.
func (a *Agent) finish(ctx context.Context, p *progress, cause error) error {
	if cause == nil {
		a.history = history{}
	} else if ctx.Err() == nil {
		asked := min(time.Until(p.sweepAt), a.cfg.Timeout)
		a.history.failed(p.left.late, a.cfg.RetryAfter, asked)
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	done, err := a.putBack(bounded, a.cfg.UID)
	a.mayHaveRecord = err != nil
	switch {
	case err != nil:
		return errors.Join(cause, err)
	case ctx.Err() != nil:
		a.log.Info("stopped, put back", "changes", done)
		return nil
	case cause != nil && done != "":
		return fmt.Errorf("%w; put back (%s), tried again in %s", cause, done, a.history.pause)
	case cause == nil:
		a.report(
			ctx,
			reasonDone,
			"driver %s serves node %s; put back: %s",
			a.driver().Wanted,
			a.cfg.Node,
			done,
		)
	}
	return cause
}
