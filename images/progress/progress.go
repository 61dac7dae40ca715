// Package progress reports on steps of the work as data. Showing it is the command's business.
package progress

import (
	"context"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// Event reports on one step of the work. Progress is data; showing it is the command's business.
type Event struct {
	Step      string    // identifies the step; unique among the steps of one Observer
	Name      string    // what a person reads
	Time      time.Time // of this event
	Started   bool      // the step began
	Completed bool      // the step ended, well if Err is nil
	Cached    bool      // it ended without work
	Err       error     // why it failed
	// the part of the step that Current and Total belong to; empty: the step has no parts
	Item    string
	Kind    Kind   // of the item
	Current int64  // bytes done, or steps
	Total   int64  // bytes in all, or steps; 0 when unknown
	Note    string // a line for people, such as a warning
}

// Kind is what an item is.
type Kind int

// The kinds of items.
const (
	File  Kind = iota // comes from somewhere or goes there
	Work              // something that is done with the files: unpacking, compressing
	Steps             // a compile, whose numbers are no bytes
)

// Observer receives events, also from several goroutines at once. A nil Observer is fine.
type Observer func(Event)

// Step is one running step.
type Step struct {
	observe Observer
	id      string
	name    string
	// unix milliseconds of the last progress event: more than ten a second are of no use
	last  atomic.Int64
	begun sync.Once
}

// Begin starts a step of a target ("535.261.03-debian12 amd64").
func (o Observer) Begin(target, name string) *Step {
	s := o.Await(target, name)
	s.begin()
	return s
}

// Await is Begin of a step that may have to wait for others, which is no work: it begins with the
// first thing that it reports.
func (o Observer) Await(target, name string) *Step {
	return &Step{observe: o, id: target + "\x00" + name, name: "[" + target + "] " + name}
}

// Quiet begins a step that nobody sees.
func Quiet() *Step { return Observer(nil).Begin("", "") }

func (s *Step) begin() {
	s.begun.Do(func() { s.emit(Event{Started: true}) })
}

func (s *Step) send(e Event) {
	s.begin()
	s.emit(e)
}

func (s *Step) emit(e Event) {
	if s.observe == nil {
		return
	}
	e.Step = s.id
	e.Name = s.name
	e.Time = time.Now()
	s.observe(e)
}

// File returns a function that reports the bytes of a file; total is 0 when unknown. Events come at
// most ten times a second, the final one always.
func (s *Step) File(item string) func(done, total int64) {
	return func(done, total int64) { s.report(File, item, done, total) }
}

// Work reports the bytes of something that is done with files.
func (s *Step) Work(item string, current, total int64) { s.report(Work, item, current, total) }

// Count reports a compile, by its steps.
func (s *Step) Count(done, total int64) { s.report(Steps, "steps", done, total) }

func (s *Step) report(kind Kind, item string, current, total int64) {
	now := time.Now().UnixMilli()
	if last := s.last.Load(); now-last < 100 && current != total ||
		!s.last.CompareAndSwap(s.last.Load(), now) {
		return
	}
	s.send(Event{Item: item, Kind: kind, Current: current, Total: total})
}

// Note passes a line on to people.
func (s *Step) Note(text string) { s.send(Event{Note: text}) }

// End closes the step: with the error, or as done, or as found in the cache. It returns err, so
// that it can wrap a result.
func (s *Step) End(cached bool, err error) error {
	s.send(Event{Completed: true, Cached: cached, Err: err})
	return err
}

// Meter counts the bytes that are written to it and reports them as those of an item. It fails once
// the context has ended.
func (s *Step) Meter(ctx context.Context, item string, total int64) io.Writer {
	return &meter{ctx: ctx, step: s, item: item, total: total}
}

type meter struct {
	ctx   context.Context //nolint:containedctx // lives as long as one copy, which it cancels
	step  *Step
	item  string
	total int64
	done  int64
}

func (m *meter) Write(p []byte) (int, error) {
	if err := m.ctx.Err(); err != nil {
		return 0, err
	}
	m.done += int64(len(p))
	shown := m.done
	if m.total > 0 {
		shown = min(shown, m.total) // the total is that of the contents; tar headers come on top
	}
	m.step.Work(m.item, shown, m.total)
	return len(p), nil
}
