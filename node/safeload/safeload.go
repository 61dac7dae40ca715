// Package safeload waits for the permission to take down a driver that may be in use, which other programs of
// the cluster give. It does not look for users of the driver, and takes nothing down.
package safeload

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"time"
)

// Permission is the permission to take down a driver that may be in use. The name safe load comes from the
// GPU Operator: the driver's pod sets an annotation on its node and waits, and the controller that drains the
// node removes the annotation. Package node/kubernetes has the real implementation.
type Permission interface {
	// Ask asks for the permission and returns whether it was given. It asks again if the request was removed or
	// changed. It returns within seconds. After fs.ErrPermission or fs.ErrNotExist asking again is useless; any
	// other error may pass.
	Ask(ctx context.Context) (granted bool, err error)
	// Withdraw removes the request, if it is still there.
	Withdraw(ctx context.Context) error
	// String returns what the instance waits for, for messages: "safe load (annotation x of node y)".
	String() string
}

const (
	every        = 2 * time.Second
	tries        = time.Minute     // how long the first request may fail
	withdrawWait = 3 * time.Second // a stop must not wait longer for a server that does not answer
)

// Waiter waits for a permission.
type Waiter struct {
	Permission
	Old  string                          // version of the driver that is to be taken down
	Show func(ctx context.Context) error // called again and again while it waits; an error ends the waiting
	Now  func() time.Time
	Log  *slog.Logger
	Warn func(format string, args ...any)
}

// Wait waits until others have freed the node for another driver. If it cannot ask, it warns, and returns:
// the caller then waits only for the holders, as it does without safe load.
func (w Waiter) Wait(ctx context.Context) (err error) {
	begin, asked, open, last := w.Now(), false, true, ""
	defer func() {
		if open {
			w.withdraw(ctx)
		}
	}()
	for {
		granted, err := w.Ask(ctx)
		useless := errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case granted:
			open = false
			w.Log.Info("safe load given", "duration", w.Now().Sub(begin).Round(time.Second))
			return nil
		case err == nil:
			asked = true
		case useless, !asked && w.Now().Sub(begin) >= tries:
			open = !useless
			w.Warn("%s: %v; going on without it: driver %s is replaced as soon as nobody uses it", w.Permission, err, w.Old)
			return nil
		case err.Error() != last:
			last = err.Error()
			w.Log.Warn("safe load not asked for, trying again", "error", err)
		}
		if err := w.Show(ctx); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(every + rand.N(every/4)): //nolint:gosec // it spreads the load of many nodes, and is no secret
		}
	}
}

// withdraw withdraws the request, even if ctx has ended, but within a few seconds.
func (w Waiter) withdraw(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), withdrawWait)
	defer cancel()
	if err := w.Withdraw(ctx); err != nil {
		w.Warn("%s could not be taken back: %v", w.Permission, err)
	}
}
