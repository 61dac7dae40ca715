package kubernetes

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

// sender is the state of one kind of report: whether it works, and when to try again if it does
// not.
type sender struct {
	what  string
	on    bool
	log   *slog.Logger
	pause time.Time     // no attempt before this time
	wait  time.Duration // the last pause
	bad   string        // why it does not work, logged once
}

const (
	refusedWait = 10 * time.Minute // people have to grant the rights
	firstWait   = 10 * time.Second // a server that does not answer may be starting
	mostWait    = 5 * time.Minute
)

// ready reports whether this kind of report is switched on and not in a pause.
func (s *sender) ready(now time.Time) bool { return s.on && !now.Before(s.pause) }

// retryOnce prepares the last report: a server that did not answer gets one more attempt, a server
// that refused does not.
func (s *sender) retryOnce(now time.Time) {
	if s.wait != refusedWait {
		s.pause = now
	}
}

// result records how an attempt ended. An attempt that ctx interrupted does not count.
func (s *sender) result(ctx context.Context, now time.Time, err error) {
	switch {
	case err == nil:
		if s.bad != "" {
			s.log.Info("reporting works again", "feature", s.what)
		}
		s.bad = ""
		s.wait = 0
		return
	case ctx.Err() != nil:
		return
	case errors.Is(err, ErrUnreachable):
		s.wait = min(max(firstWait, 2*s.wait, RetryAfter(err)), mostWait)
	default:
		s.wait = refusedWait
	}
	s.pause = now.Add(s.wait)
	if s.bad == "" {
		s.log.Warn(
			"reporting failed, the driver goes on without it",
			"feature",
			s.what,
			"error",
			err,
		)
	}
	s.bad = err.Error()
}
