package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"time"
)

// Clearance is somebody's permission to take down the driver that others may be using: the GPU Operator's safe load, in which the driver's
// pod marks its node and waits, and whoever drains the node removes the mark. package node/kubernetes has the real one.
type Clearance interface {
	// Ask asks for it, again where the request is not there as it was made, and says whether it was given. It returns within seconds. An
	// error that is fs.ErrPermission or fs.ErrNotExist says that asking again is useless; any other one passes.
	Ask(ctx context.Context) (granted bool, err error)
	// Withdraw takes the request back, if it is still there.
	Withdraw(ctx context.Context) error
	// String says what is waited for, for messages: "safe load (annotation x of node y)".
	String() string
}

const (
	clearanceEvery = 2 * time.Second
	clearanceTries = time.Minute     // how long nobody may answer before the request was ever made
	withdrawWait   = 3 * time.Second // a stop must not wait longer for a server that does not answer
)

// askClearance waits until others have made the node free for another driver. Without anybody to ask it is a warning: the driver goes
// on waiting for its holders, as it does without.
func (n *Node) askClearance(ctx context.Context, old Driver) (err error) {
	if n.clearance == nil {
		return nil
	}
	begin, asked, open, last := n.now(), false, true, ""
	defer func() {
		if open {
			n.withdraw(ctx)
		}
	}()
	for {
		granted, err := n.clearance.Ask(ctx)
		useless := errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case granted:
			open = false
			n.say("%s: given after %s", n.clearance, n.now().Sub(begin).Round(time.Second))
			return nil
		case err == nil:
			asked = true
		case useless, !asked && n.now().Sub(begin) >= clearanceTries:
			open = !useless
			n.warn("%s: %v; going on without it: driver %s is replaced as soon as nobody uses it", n.clearance, err, old.Version)
			return nil
		case err.Error() != last:
			last = err.Error()
			n.say("warning: %s: %v; trying again", n.clearance, err)
		}
		if err := n.showClearance(ctx, old); err != nil {
			return err
		}
		if !n.sleep(ctx, clearanceEvery+rand.N(clearanceEvery/4)) { //nolint:gosec // it spreads the load of many nodes, and is no secret
			return ctx.Err()
		}
	}
}

// showClearance says in the status what is waited for, and who holds the driver meanwhile: whoever empties the node needs to know.
func (n *Node) showClearance(ctx context.Context, old Driver) error {
	err := n.free(ctx)
	var busy *InUseError
	if err != nil && !errors.As(err, &busy) {
		return err
	}
	reason := fmt.Sprintf("driver %s must go before %s can be loaded: waiting for %s", old.Version, n.want.Driver, n.clearance)
	if busy != nil {
		n.countBlocked()
		reason += "; " + busy.Error()
	}
	n.board.change(func(st *Status) {
		if st.State != Waiting {
			n.say("%s", reason)
		}
		st.State, st.WaitsFor, st.Ready, st.Reason, st.Holders = Waiting, ForClearance, false, reason, nil
		if busy != nil {
			st.Holders = busy.Holders
		}
	})
	return nil
}

// withdraw takes the request back, also when ctx has ended, but within a few seconds.
func (n *Node) withdraw(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), withdrawWait)
	defer cancel()
	if err := n.clearance.Withdraw(ctx); err != nil {
		n.warn("%s could not be taken back: %v", n.clearance, err)
	}
}

// sleep waits; false when ctx ended first.
func (n *Node) sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
