package session

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/moby/buildkit/client"
	"github.com/moby/buildkit/util/progress/progressui"
	"github.com/opencontainers/go-digest"
	"github.com/tonistiigi/units"

	"github.com/driver-container/driver-container/distros/redact"
	"github.com/driver-container/driver-container/images/progress"
)

// step is what is known of a step. Several callers may be in the same step at a time: it lasts from
// the first one's begin to the last one's end, and BuildKit's display would count on for ever if it
// saw more.
type step struct {
	vertex  client.Vertex
	running int
	worked  bool                      // one of them did not find its result in the cache
	files   map[string]progress.Event // how far each is
	last    progress.Event            // of an item
	logged  time.Time                 // when a line last said how far the step is
}

// logEvery is how often a display of lines says how far a step is.
const logEvery = 5 * time.Second

// status is an event as BuildKit's display takes it. A program gets the items of a step; people get
// one line, which says how much of them there is.
func (d *display) status(e progress.Event) *client.SolveStatus {
	s := d.steps[e.Step]
	if s == nil {
		s = &step{
			vertex: client.Vertex{Digest: digest.FromString(e.Step), Name: redact.Text(e.Name)},
			files:  map[string]progress.Event{},
			logged: e.Time,
		}
		d.steps[e.Step] = s
	}
	changed := s.follow(e)
	if e.Item != "" {
		s.last = e
		if e.Kind == progress.File {
			s.files[e.Item] = e
		}
	}
	status := &client.SolveStatus{}
	switch amount := s.amount(); {
	case amount == "":
	case d.mode == progressui.RawJSONMode:
		if e.Item != "" {
			status.Statuses = []*client.VertexStatus{
				{
					ID:        e.Item,
					Name:      e.Item,
					Vertex:    s.vertex.Digest,
					Current:   e.Current,
					Total:     e.Total,
					Timestamp: e.Time,
				},
			}
		}
	case d.mode == progressui.TtyMode:
		name := redact.Text(e.Name) + ": " + amount
		changed = changed || s.vertex.Name != name
		s.vertex.Name = name
	case e.Item != "" && e.Time.Sub(s.logged) >= logEvery:
		s.logged = e.Time
		s.log(status, e.Time, amount)
	}
	if changed {
		shown := s.vertex // the display may still read an earlier one
		if shown.Error != "" && d.mode != progressui.RawJSONMode &&
			!strings.HasSuffix(shown.Error, context.Canceled.Error()) {
			shown.Error = printedLater
		}
		status.Vertexes = []*client.Vertex{&shown}
	}
	if e.Note != "" {
		s.log(status, e.Time, e.Note)
	}
	return status
}

// follow counts the callers in the step. It reports whether the step itself began or ended.
func (s *step) follow(e progress.Event) bool {
	if e.Started {
		if s.running++; s.running == 1 {
			s.vertex.Started = &e.Time
			s.vertex.Completed = nil
			return true
		}
	}
	if !e.Completed {
		return false
	}
	s.running--
	s.worked = s.worked || !e.Cached
	if e.Err != nil {
		s.vertex.Error = redact.Text(e.Err.Error())
	}
	_, stopped := errors.AsType[SignalError](e.Err)
	if stopped {
		s.vertex.Error = context.Canceled.Error() // by which the display knows it
	}
	if s.running > 0 {
		return false
	}
	s.vertex.Completed = &e.Time
	s.vertex.Cached = !s.worked
	return true
}

// amount is how far the step is: what it does with its files while it does that, else the files; ""
// if it has none.
func (s *step) amount() string {
	e := s.last
	ended := s.vertex.Completed != nil && len(s.files) > 0
	switch {
	case e.Item == "":
		return ""
	case e.Kind == progress.Steps && !ended:
		return fmt.Sprintf("%d/%d", e.Current, e.Total)
	case e.Kind == progress.File || ended:
		whole := 0
		sum := progress.Event{Item: s.last.Item}
		for _, file := range s.files {
			sum.Current = sum.Current + file.Current
			sum.Total = sum.Total + max(file.Current, file.Total)
			if file.Current >= file.Total {
				whole++
			}
		}
		e = sum
		if len(s.files) > 1 {
			e.Item = fmt.Sprintf("%d/%d files", whole, len(s.files))
		}
	}
	if e.Current >= e.Total {
		return fmt.Sprintf("%s %.1f", e.Item, units.Bytes(e.Current))
	}
	return fmt.Sprintf("%s %.1f/%.1f", e.Item, units.Bytes(e.Current), units.Bytes(e.Total))
}

func (s *step) log(status *client.SolveStatus, at time.Time, line string) {
	status.Logs = append(
		status.Logs,
		&client.VertexLog{
			Vertex:    s.vertex.Digest,
			Stream:    2,
			Data:      []byte(redact.Text(line) + "\n"),
			Timestamp: at,
		},
	)
}
