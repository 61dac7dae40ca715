package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/driver-container/driver-container/node/lock"
	"github.com/driver-container/driver-container/node/logging"
	"github.com/driver-container/driver-container/node/status"
)

// phase is one part of a start. It adds what it puts up to n.up, or undoes it itself before it returns an
// error.
type phase struct {
	name string
	run  func(n *Node, ctx context.Context) error
}

// phases are in the order of a start. Before replace nothing that works is touched. The root comes before the
// modules: the kernel looks for the driver's firmware in it, and a stop unmounts it only after the modules
// are unloaded.
var phases = []phase{
	{status.LockPhase, (*Node).takeLock},
	{"recover", (*Node).recover},
	{"survey", (*Node).survey},
	{"preflight", (*Node).preflight},
	{"modules", (*Node).getModules},
	{"stage", (*Node).stage},
	{"replace", (*Node).replace},
	{"root", (*Node).serveRoot},
	{"load", (*Node).load},
	{"companions", (*Node).loadCompanions},
	{"nodes", (*Node).makeNodes},
	{"daemons", (*Node).startDaemons},
	{"verify", (*Node).verify},
}

// start runs the phases until one fails or ctx ends.
func (n *Node) start(ctx context.Context) error {
	begin, log := n.now(), n.log
	defer func() { n.log = log }()
	for i, p := range phases {
		if err := ctx.Err(); err != nil {
			return err
		}
		since := n.now()
		n.log = log.With(logging.PhaseKey, p.name)
		err := p.run(n, ctx)
		took := n.now().Sub(since).Round(time.Millisecond)
		if n.lock != nil {
			n.status.Change(func(st *status.Snapshot) {
				st.Phases = append(st.Phases, status.Timing{Phase: p.name, Seconds: took.Seconds()})
				if err == nil && i+1 < len(phases) {
					st.Phase = phases[i+1].name
				}
			})
		}
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		log.Info("phase finished", logging.PhaseKey, p.name, "duration", took)
	}
	n.status.Change(func(st *status.Snapshot) { st.Phase = "" })
	log.Info("the driver is up", "driver", n.driver.Version, "flavour", n.driver.Flavour, "kernel", n.release, "duration", n.now().Sub(begin).Round(time.Millisecond))
	return nil
}

// takeLock makes this the only instance on the node. Before that nothing is written anywhere.
func (n *Node) takeLock(ctx context.Context) error {
	lock, err := n.locker.Acquire(ctx, n.waitsForLock)
	if err != nil {
		return err
	}
	n.lock = lock
	old := n.status.Predecessor()
	n.prev = old.Up
	if old.State != "" && old.State != status.Absent {
		n.log.Info("predecessor found", "left", describe(old.Up), "state", old.State, "reason", old.Reason)
	}
	n.status.Change(func(st *status.Snapshot) {
		st.State, st.Phase, st.Reason, st.Up, st.LastFailure = status.Starting, "", "", old.Up, old.LastFailure
	})
	return errors.Join(n.markers.NotReady(), n.markers.RemoveUnfinished())
}

// waitsForLock sets in this instance's own status what it waits for. The node's status file belongs to the
// holder.
func (n *Node) waitsForLock(h lock.Holder) {
	n.status.ChangeUnsaved(func(st *status.Snapshot) {
		st.State, st.WaitsFor, st.Phase, st.Reason = status.Waiting, status.ForLock, status.LockPhase, "waiting for the node's lock, held by "+h.String()
	})
}

func describe(d *status.Driver) string {
	if d == nil {
		return "no driver up"
	}
	return fmt.Sprintf("driver %s (%s) up", d.Version, d.Flavour)
}

// beat touches the instance's file until end is closed: the liveness probe sees by it that the process runs,
// however long a phase takes.
func (n *Node) beat(end <-chan struct{}) {
	for {
		select {
		case <-end:
			return
		case now := <-time.After(untilNext(n.now())):
			_ = os.Chtimes(n.instanceFile, now, now)
		}
	}
}

// warn logs a warning and keeps it in the status. A warning that the status has already is not repeated.
func (n *Node) warn(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if slices.Contains(n.status.Get().Warnings, text) {
		return
	}
	n.log.Warn(text) //nolint:sloglint // the sentence is also in the status
	n.status.Change(func(st *status.Snapshot) {
		const most = 50
		if len(st.Warnings) < most {
			st.Warnings = append(st.Warnings, text)
		}
	})
}

// tick is the pause between two checks of something that is in the way.
const tick = time.Second

// sleep waits, and returns false if ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
