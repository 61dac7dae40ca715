package kubernetes

import (
	"context"
	"errors"
	"time"
)

// Recorder limits Events: for each part of an object and each reason it sends at most one message in
// five minutes, the latest one; a repeated message only raises a count. It is not safe for concurrent use.
type Recorder struct {
	Client *Client
	Host   string // name of the node
	Now    func() time.Time

	entries []*entry
}

// entry is one part of an object with one reason.
type entry struct {
	event   Event // the latest one
	pending int   // how often it happened since the last Send
	first   time.Time
	last    time.Time

	name     string    // of the Event on the server; "": none
	reported Event     // content of that Event
	count    int       // count of that Event
	sent     time.Time // when it was sent
}

// maxEntries is more than the reasons of a pod, its node and its GPUs.
const maxEntries = 256

// Record notes that something happened. Send sends it.
func (r *Recorder) Record(e Event) {
	now := r.Now()
	for _, x := range r.entries {
		if x.event.About == e.About && x.event.Part == e.Part && x.event.Reason == e.Reason {
			if x.pending == 0 || x.event != e {
				x.pending = 0
				x.first = now
			}
			x.event = e
			x.pending = x.pending + 1
			x.last = now
			return
		}
	}
	if len(r.entries) < maxEntries {
		r.entries = append(r.entries, &entry{event: e, pending: 1, first: now, last: now})
	}
}

const every = 5 * time.Minute

// Send sends the Events that are due, or with all every pending one. Those that could not be sent
// stay pending.
func (r *Recorder) Send(ctx context.Context, all bool) error {
	var errs []error
	for _, x := range r.entries {
		if x.pending == 0 || !all && !x.sent.IsZero() && r.Now().Sub(x.sent) < every {
			continue
		}
		if err := r.send(ctx, x); err != nil {
			errs = append(errs, err)
			if errors.Is(err, ErrUnreachable) {
				break
			}
			continue
		}
		x.pending = 0
		x.sent = r.Now()
	}
	return errors.Join(errs...)
}

func (r *Recorder) send(ctx context.Context, x *entry) error {
	if x.name != "" && x.reported == x.event {
		err := r.Client.raiseEvent(ctx, x.event, x.name, x.last, x.count+x.pending)
		if err == nil {
			x.count += x.pending
		}
		if !errors.Is(err, ErrNotFound) {
			return err
		}
	}
	name, err := r.Client.createEvent(ctx, x.event, r.Host, x.first, x.last, x.pending)
	if err != nil {
		return err
	}
	x.name = name
	x.reported = x.event
	x.count = x.pending
	return nil
}
