package display

import (
	"context"
	"strings"
	"time"

	"github.com/moby/buildkit/client"
	"github.com/moby/buildkit/util/progress/progressui"
	"github.com/opencontainers/go-digest"

	"github.com/driver-container/driver-container/images/progress"
)

// step is what is known of a step. Several callers may be in the same step at a time: it lasts from the first
// one's begin to the last one's end, and BuildKit's display would count on for ever if it saw more.
type step struct {
	vertex  client.Vertex
	running int
	worked  bool // one of them did not find its result in the cache
	moved   moved
	told    time.Time // when a line last said what was moved
	line    string    // that line
	open    map[string]*client.VertexStatus
}

// tellEvery is how often a display of lines says how far a step is.
const tellEvery = 5 * time.Second

// minTold is how many bytes of files a step has moved, if it says so at its end.
const minTold = 1e6

// beside is what BuildKit's display writes beside the name of a step: " => " and " 1234.5s".
const beside = 14

// status is an event as BuildKit's display takes it. A program gets all items of a step; people get one line
// a step, which says what was moved.
func (d *Display) status(e progress.Event) *client.SolveStatus {
	s := d.steps[e.Step]
	if s == nil {
		s = &step{vertex: client.Vertex{Digest: digest.FromString(e.Step), Name: e.Name}, open: map[string]*client.VertexStatus{}}
		d.steps[e.Step] = s
	}
	status := &client.SolveStatus{}
	changed := s.follow(e)
	if d.mode == progressui.RawJSONMode {
		status.Statuses = s.items(e)
	} else {
		changed = d.describe(s, e, status) || changed
	}
	if changed {
		shown := s.vertex // the display may still read an earlier one
		status.Vertexes = []*client.Vertex{&shown}
	}
	if e.Note != "" {
		s.log(status, e)
	}
	return status
}

// follow counts the callers in the step. It reports whether the step itself began or ended.
func (s *step) follow(e progress.Event) bool {
	if e.Started {
		if s.running++; s.running == 1 {
			s.vertex.Started, s.vertex.Completed = &e.Time, nil
			return true
		}
	}
	if !e.Completed {
		return false
	}
	s.running--
	s.worked = s.worked || !e.Cached
	if e.Err != nil {
		s.vertex.Error = e.Err.Error()
	}
	if s.running > 0 {
		return false
	}
	s.vertex.Completed, s.vertex.Cached = &e.Time, !s.worked
	return true
}

// items are those of the event. They end with their step: those without a total, which do not tell when they
// are whole, would count on.
func (s *step) items(e progress.Event) (all []*client.VertexStatus) {
	if e.Item != "" {
		item := &client.VertexStatus{
			ID: e.Item, Name: e.Item, Vertex: s.vertex.Digest, Current: e.Current, Total: e.Total, Timestamp: e.Time, Started: s.vertex.Started,
		}
		if s.open[e.Item] = item; e.Total > 0 && e.Current >= e.Total {
			item.Completed = &e.Time
			delete(s.open, e.Item)
		}
		all = append(all, item)
	}
	if s.vertex.Completed != nil {
		for _, item := range s.open {
			ended := *item
			ended.Completed, ended.Timestamp = &e.Time, e.Time
			all = append(all, &ended)
		}
		clear(s.open)
	}
	return all
}

// describe says in the name of the step how far it is, or in a line where names are written once. It reports
// whether the name is another one now.
func (d *Display) describe(s *step, e progress.Event, status *client.SolveStatus) bool {
	room := d.width() - beside
	switch {
	case strings.HasSuffix(s.vertex.Error, context.Canceled.Error()):
		room -= len("CANCELED ")
	case s.vertex.Error != "":
		s.vertex.Error = "the reason is below" // in the command's error
		room -= len("ERROR ")
	case s.vertex.Cached:
		room -= len("CACHED ")
	}
	s.moved.add(e)
	text := s.moved.text(s.vertex.Completed != nil)
	if d.mode == progressui.TtyMode {
		name := fit(e.Name, text, room)
		changed := name != s.vertex.Name
		s.vertex.Name = name
		return changed
	}
	if s.told.IsZero() {
		s.told = e.Time
	}
	ended := e.Completed && s.vertex.Completed != nil && s.moved.files.current >= minTold
	if text != "" && text != s.line && (ended || e.Time.Sub(s.told) >= tellEvery) {
		s.log(status, progress.Event{Time: e.Time, Note: text})
		s.told, s.line = e.Time, text
	}
	return false
}

func (s *step) log(status *client.SolveStatus, e progress.Event) {
	status.Logs = append(status.Logs, &client.VertexLog{Vertex: s.vertex.Digest, Stream: 2, Data: []byte(e.Note + "\n"), Timestamp: e.Time})
}
