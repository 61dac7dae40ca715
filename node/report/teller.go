package report

import (
	"context"
	"errors"
	"time"

	"github.com/driver-container/driver-container/node/kubernetes"
)

// teller is what is known of one way of telling: whether it works, and when to try again when not.
type teller struct {
	what  string
	on    bool
	say   func(format string, args ...any)
	pause time.Time     // not before
	wait  time.Duration // the last pause
	bad   string        // why it does not work, said once
}

const (
	refusedWait = 10 * time.Minute // rights are given by people
	firstWait   = 10 * time.Second // a server that does not answer may be starting
	mostWait    = 5 * time.Minute
)

func (t *teller) may(now time.Time) bool { return t.on && !now.Before(t.pause) }

// lastChance is for the last report: a server that did not answer gets one more attempt, a server that refuses does not.
func (t *teller) lastChance(now time.Time) {
	if t.wait != refusedWait {
		t.pause = now
	}
}

// result notes how it went. What ctx broke off says nothing.
func (t *teller) result(ctx context.Context, now time.Time, err error) {
	switch {
	case err == nil:
		if t.bad != "" {
			t.say("%s: working again", t.what)
		}
		t.bad, t.wait = "", 0
		return
	case ctx.Err() != nil:
		return
	case errors.Is(err, kubernetes.ErrUnreachable):
		t.wait = min(max(firstWait, 2*t.wait), mostWait)
	default:
		t.wait = refusedWait
	}
	t.pause = now.Add(t.wait)
	if t.bad == "" {
		t.say("warning: %s: %v; the driver goes on without", t.what, err)
	}
	t.bad = err.Error()
}
