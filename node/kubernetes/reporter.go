package kubernetes

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/driver-container/driver-container/node/status"
)

// Source is the instance to follow: the methods Snapshot and Changed of *node.Node.
type Source struct {
	Status  func() status.Snapshot
	Changed <-chan struct{}
}

// ReportOptions say what to report, and where to.
type ReportOptions struct {
	Events    bool
	Condition bool
	// Taints are the keys of the taints to remove from the node when the driver serves.
	Taints []string

	Client *Client // required for Events, Condition and Taints
	Node   string  // name of the node in the cluster
	Pod    Object  // this pod
	Log    *slog.Logger
	// Idle is called once, after the first report that the driver serves; may be nil.
	Idle func(ctx context.Context)
}

// Reporter works from StartReporter to Close.
type Reporter struct {
	source Source
	o      ReportOptions
	now    func() time.Time

	cancel context.CancelFunc
	done   chan struct{}
	once   sync.Once

	events     sender
	recorder   *Recorder
	last       eventText // the last one that was recorded
	recorded   time.Time
	gpus       map[string]status.GPUState // by address, at the last report
	without    map[string]bool            // licence, by address, at the last report
	phase      string                     // the phase of the start, and since when it lasts
	since      time.Time
	condition  sender
	reported   Condition // that the server has
	reportedAt time.Time
	idle       bool // Idle was called
	taints     sender
	untainted  bool // the taints were removed
}

const (
	// an Event is deleted after an hour; a state that lasts is reported again
	repeatEvery = 10 * time.Minute
	compileWait = 5 * time.Second // a phase that takes longer is a compile
	lookEvery   = 5 * time.Second // at a status that has not changed: something may be due
)

// StartReporter returns a reporter that follows the source until Close, or until ctx ends.
func StartReporter(ctx context.Context, source Source, o ReportOptions) *Reporter {
	r := &Reporter{
		source:  source,
		o:       o,
		now:     time.Now,
		done:    make(chan struct{}),
		without: map[string]bool{},
	}
	r.recorder = &Recorder{Client: o.Client, Host: o.Node, Now: func() time.Time { return r.now() }}
	r.events = sender{what: "Kubernetes Events", on: o.Events, log: o.Log}
	r.condition = sender{what: "the node condition " + conditionType, on: o.Condition, log: o.Log}
	r.taints = sender{what: "the removal of startup taints", on: len(o.Taints) > 0, log: o.Log}
	ctx, cancel := context.WithCancel(ctx)
	r.cancel = cancel
	go r.follow(ctx)
	return r
}

// Close reports the last state, at the latest until ctx ends, and ends the reporter. Later calls do
// nothing.
func (r *Reporter) Close(ctx context.Context) {
	r.once.Do(func() {
		r.cancel()
		select {
		case <-r.done:
		case <-ctx.Done():
			return
		}
		r.events.retryOnce(r.now())
		r.condition.retryOnce(r.now())
		r.report(ctx, true)
	})
}

func (r *Reporter) follow(ctx context.Context) {
	defer close(r.done)
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for ctx.Err() == nil {
		r.report(ctx, false)
		select {
		case <-ctx.Done():
		case <-r.source.Changed:
		case <-look.C:
		}
	}
}

// report reports the changes: first the condition, on which other programs act, then Events.
func (r *Reporter) report(ctx context.Context, final bool) {
	st := r.source.Status()
	r.reportCondition(ctx, st, final)
	if !final {
		r.removeTaints(ctx, st)
	}
	r.record(st)
	r.recordGPUs(st)
	if r.events.ready(r.now()) {
		err := r.recorder.Send(ctx, final)
		r.events.result(ctx, r.now(), err)
	}
	if st.State == status.Serving && !r.idle && !final {
		r.idle = true
		if r.o.Idle != nil {
			r.o.Idle(ctx)
		}
	}
}
