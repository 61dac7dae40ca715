// Package display shows the events of a build on a terminal, as BuildKit's own display does, which people
// know from docker build. It knows nothing of what the events mean.
package display

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/moby/buildkit/client"
	"github.com/moby/buildkit/util/progress/progressui"
	"github.com/opencontainers/go-digest"

	"github.com/driver-container/driver-container/images/progress"
)

// Display shows events until it is closed.
type Display struct {
	mu    sync.Mutex
	ch    chan *client.SolveStatus // nil once closed
	done  chan error
	shown map[string]*client.Vertex
	open  map[string][]*client.VertexStatus // items of a step that have not ended
	rates map[string]*rate                  // of steps; nil: not shown
}

// modes are the values of --progress, as BuildKit calls them.
var modes = map[string]progressui.DisplayMode{
	"auto": progressui.AutoMode, "tty": progressui.TtyMode, "plain": progressui.PlainMode,
	"json": progressui.RawJSONMode, "quiet": progressui.QuietMode,
}

// New starts a display of a mode, one of auto, tty, plain, json and quiet.
func New(w io.Writer, mode string) (*Display, error) {
	m, ok := modes[mode]
	if !ok {
		return nil, fmt.Errorf("--progress %q is not known: use auto, tty, plain, json or quiet", mode)
	}
	ui, err := progressui.NewDisplay(w, m)
	if err != nil {
		return nil, fmt.Errorf("--progress %s: %w", mode, err)
	}
	d := &Display{ch: make(chan *client.SolveStatus, 16), done: make(chan error, 1), shown: map[string]*client.Vertex{}, open: map[string][]*client.VertexStatus{}}
	if mode != "json" { // programs compute it
		d.rates = map[string]*rate{}
	}
	go func(ch chan *client.SolveStatus) {
		_, err := ui.UpdateFrom(context.Background(), ch) // ends when the channel is closed
		d.done <- err
	}(d.ch)
	return d, nil
}

// Close waits until everything is on the screen.
func (d *Display) Close() error {
	d.mu.Lock()
	if d.ch != nil {
		close(d.ch)
		d.ch = nil
	}
	d.mu.Unlock()
	if err := <-d.done; err != nil {
		return fmt.Errorf("show progress: %w", err)
	}
	return nil
}

// Observe is a progress.Observer.
func (d *Display) Observe(e progress.Event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ch != nil {
		d.ch <- d.status(e)
	}
}

// withRate returns the step with its rate in the name, nil if that is not known or as it was.
func (d *Display) withRate(e progress.Event, v *client.Vertex) *client.Vertex {
	if d.rates == nil {
		return nil
	}
	r := d.rates[e.Step]
	if r == nil {
		r = &rate{}
		d.rates[e.Step] = r
	}
	text := r.add(e)
	if text == "" || v.Name == e.Name+text {
		return nil
	}
	next := *v
	next.Name = e.Name + text
	return &next
}

// status is an event as BuildKit's display takes it. Items end with their step: those without a total, which
// do not tell when they are whole, would count on.
func (d *Display) status(e progress.Event) *client.SolveStatus {
	id := digest.FromString(e.Step)
	v := d.shown[e.Step]
	if v == nil {
		v = &client.Vertex{Digest: id, Name: e.Name}
		d.shown[e.Step] = v
	}
	status := &client.SolveStatus{}
	if e.Started || e.Completed {
		next := *v
		if e.Started {
			next.Started, next.Completed = &e.Time, nil
		}
		if e.Completed {
			next.Completed, next.Cached = &e.Time, e.Cached
			if e.Err != nil {
				next.Error = e.Err.Error()
			}
		}
		d.shown[e.Step] = &next
		status.Vertexes = []*client.Vertex{&next}
	}
	if e.Item != "" {
		if shown := d.withRate(e, v); shown != nil {
			d.shown[e.Step] = shown
			status.Vertexes = append(status.Vertexes, shown)
		}
		s := &client.VertexStatus{ID: e.Item, Name: e.Item, Vertex: id, Current: e.Current, Total: e.Total, Timestamp: e.Time, Started: v.Started}
		d.open[e.Step] = slices.DeleteFunc(d.open[e.Step], func(o *client.VertexStatus) bool { return o.ID == s.ID })
		if e.Total > 0 && e.Current >= e.Total {
			s.Completed = &e.Time
		} else {
			d.open[e.Step] = append(d.open[e.Step], s)
		}
		status.Statuses = []*client.VertexStatus{s}
	}
	if e.Completed {
		for _, s := range d.open[e.Step] {
			ended := *s // the display may still read s
			ended.Completed, ended.Timestamp = &e.Time, e.Time
			status.Statuses = append(status.Statuses, &ended)
		}
		delete(d.open, e.Step)
	}
	if e.Note != "" {
		status.Logs = []*client.VertexLog{{Vertex: id, Stream: 2, Data: []byte(e.Note + "\n"), Timestamp: e.Time}}
	}
	return status
}
