package report

import (
	"context"
	"errors"
	"time"

	"github.com/driver-container/driver-container/node/kubernetes"
)

// sender is the state of one way of reporting: whether it works, and when to try again when it does not.
type sender struct {
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

// ready says whether this way is switched on and not in a pause.
func (s *sender) ready(now time.Time) bool { return s.on && !now.Before(s.pause) }

// lastChance is for the last report: a server that did not answer gets one more attempt, a server that
// refuses does not.
func (s *sender) lastChance(now time.Time) {
	if s.wait != refusedWait {
		s.pause = now
	}
}

// result records how an attempt ended. An attempt that ctx interrupted does not count.
func (s *sender) result(ctx context.Context, now time.Time, err error) {
	switch {
	case err == nil:
		if s.bad != "" {
			s.say("%s: working again", s.what)
		}
		s.bad, s.wait = "", 0
		return
	case ctx.Err() != nil:
		return
	case errors.Is(err, kubernetes.ErrUnreachable):
		s.wait = min(max(firstWait, 2*s.wait), mostWait)
	default:
		s.wait = refusedWait
	}
	s.pause = now.Add(s.wait)
	if s.bad == "" {
		s.say("warning: %s: %v; the driver goes on without", s.what, err)
	}
	s.bad = err.Error()
}
