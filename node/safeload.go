package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"time"

	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/node/daemons"
	"github.com/driver-container/driver-container/node/status"
)

// SafeLoad is the permission to take down a driver that may be in use, which other programs of the
// cluster give. The name comes from the GPU Operator: the driver's pod sets an annotation on its
// node and waits, and the controller that drains the node removes the annotation. Package
// node/kubernetes has the real implementation.
type SafeLoad interface {
	// Ask asks for the permission and returns whether it was given. It asks again if the request
	// was removed or changed. It returns within seconds. After fs.ErrPermission or fs.ErrNotExist
	// asking again is useless; any other error may pass.
	Ask(ctx context.Context) (granted bool, err error)
	// Withdraw removes the request, if it is still there.
	Withdraw(ctx context.Context) error
	// String returns what the instance waits for, for messages: "safe load (annotation x of node
	// y)".
	String() string
}

const (
	// between questions to the server, and after a long wait
	safeLoadEvery = 2 * time.Second
	safeLoadMost  = 10 * time.Second
	safeLoadTries = time.Minute // how long the first request may fail
	// a stop must not wait longer for a server that does not answer
	safeLoadWithdraw = 3 * time.Second
)

// awaitSafeLoad waits until others have freed the node for another driver, if permission is needed.
// If it cannot ask, it warns, and returns: the caller then waits only for the holders, as it does
// without safe load.
func (r *replacement) awaitSafeLoad(ctx context.Context) (err error) {
	if r.SafeLoad == nil {
		return nil
	}
	begin := time.Now()
	asked := false
	open := true
	last := ""
	defer func() {
		if open {
			r.withdrawSafeLoad(ctx)
		}
	}()
	for {
		granted, err := r.SafeLoad.Ask(ctx)
		useless := errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case granted:
			open = false
			r.Log.Info("safe load given", "duration", time.Since(begin).Round(time.Second))
			return nil
		case err == nil:
			asked = true
		case useless, !asked && time.Since(begin) >= safeLoadTries:
			open = !useless
			r.warn("%s: %v; going on without it: driver %s is replaced as soon as nobody uses it", r.SafeLoad, err, r.old.Version)
			return nil
		case err.Error() != last:
			last = err.Error()
			r.Log.Warn("safe load not asked for, trying again", "error", err)
		}
		if err := r.showSafeLoad(ctx); err != nil {
			return err
		}
		pause := min(max(safeLoadEvery, time.Since(begin)/30), safeLoadMost)
		pause += rand.N(pause / 4) //nolint:gosec // it spreads the load of many nodes, and is no secret
		if !daemons.Sleep(ctx, pause) {
			return ctx.Err()
		}
	}
}

// withdrawSafeLoad withdraws the request, even if ctx has ended, but within a few seconds.
func (r *replacement) withdrawSafeLoad(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), safeLoadWithdraw)
	defer cancel()
	err := r.SafeLoad.Withdraw(ctx)
	if err != nil {
		r.warn("%s could not be taken back: %v", r.SafeLoad, err)
	}
}

// showSafeLoad sets in the status what the instance waits for, and which processes hold the driver
// meanwhile: people who drain the node need to know.
func (r *replacement) showSafeLoad(ctx context.Context) error {
	reason := fmt.Sprintf("%s: waiting for %s", r.mustGo(), r.SafeLoad)
	var holders []kmod.Holder
	err := r.free(ctx)
	busy := r.inUse(err)
	if err != nil && busy == nil {
		return err
	}
	if busy != nil {
		reason = reason + "; " + busy.Error()
		holders = busy.Holders
	}
	if r.Status.Get().State != status.Waiting {
		r.Log.Info("waiting for safe load", "reason", reason)
	}
	r.Status.Wait(status.ForSafeLoad, reason, holders)
	return nil
}
