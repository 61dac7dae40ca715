package session

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"regexp"
	"sync"

	"github.com/moby/buildkit/client"
	"github.com/moby/buildkit/util/progress/progressui"
	"golang.org/x/term"

	"github.com/driver-container/driver-container/distros/escape"
	"github.com/driver-container/driver-container/images/progress"
	"github.com/driver-container/driver-container/images/registry"
)

// display shows events until it is closed.
type display struct {
	mu    sync.Mutex
	ch    chan *client.SolveStatus // nil once closed
	done  chan error
	mode  progressui.DisplayMode
	steps map[string]*step
}

// newDisplay starts a display of a mode, one of auto, tty, plain, json and quiet.
func newDisplay(w io.Writer, mode string) (*display, error) {
	m := progressui.DisplayMode(mode)
	if mode == "json" {
		m = progressui.RawJSONMode
	}
	out := &onceWriter{Writer: w}
	to := io.Writer(out)
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		to = console{f, out}
		if m == progressui.AutoMode {
			m = progressui.TtyMode
		}
	}
	ui, err := progressui.NewDisplay(to, m)
	if err != nil {
		return nil, fmt.Errorf("--progress %s: %w", mode, err)
	}
	d := &display{
		ch:    make(chan *client.SolveStatus, 16),
		done:  make(chan error, 1),
		mode:  m,
		steps: map[string]*step{},
	}
	go func(ch chan *client.SolveStatus) {
		_, err := ui.UpdateFrom(context.Background(), ch) // ends when the channel is closed
		d.done <- err
	}(d.ch)
	return d, nil
}

// Close waits until everything is on the screen.
func (d *display) Close() error {
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
func (d *display) Observe(e progress.Event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ch != nil {
		d.ch <- d.status(e)
	}
}

// printedLater stands for the error of a step in BuildKit's display. onceWriter removes it.
const printedLater = "the command tells it"

// onceWriter leaves out what the command tells once, in its error with the last lines of a compile:
// the errors of steps, and the blocks between lines of dashes with which BuildKit's display ends.
type onceWriter struct {
	io.Writer

	inside bool
}

func (w *onceWriter) Write(p []byte) (int, error) {
	dashes := string(p) == "------\n" // BuildKit writes each in one piece
	if dashes {
		w.inside = !w.inside
	}
	if dashes || w.inside {
		return len(p), nil
	}
	_, err := w.Writer.Write(bytes.ReplaceAll(p, []byte(": "+printedLater), nil))
	return len(p), err
}

// console is a terminal for BuildKit's display.
type console struct {
	*os.File

	to io.Writer
}

func (c console) Write(p []byte) (int, error) { return c.to.Write(p) }

// transfers are the blobs on their way from or to registries. All of one pull or push are one step
// for people.
type transfers struct {
	observe progress.Observer
	mu      sync.Mutex
	open    map[string]*progress.Step
}

// Event takes an event of the registry.
func (t *transfers) Event(e registry.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	id := e.Op + " " + e.Ref + " " + e.Name
	step := t.open[id]
	if step == nil {
		step = t.observe.Begin(e.Op, e.Ref)
		t.open[id] = step
	}
	name := cmp.Or(e.Called, digests.ReplaceAllString(e.Name, "$1"))
	if e.State != registry.Running && e.State != registry.Done {
		name += " (" + string(e.State) + ")"
	}
	step.File(escape.Line(name))(e.Current, e.Total)
	if e.State != registry.Running {
		_ = step.End(e.State != registry.Done, nil)
		delete(t.open, id)
	}
}

// digests finds digests, of which people read the beginning at most.
var digests = regexp.MustCompile(`\bsha256:([0-9a-f]{12})[0-9a-f]{52}\b`)

// End closes the steps that are open.
func (t *transfers) End() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, step := range t.open {
		_ = step.End(false, nil) // what went wrong is in the command's error
	}
	clear(t.open)
}
