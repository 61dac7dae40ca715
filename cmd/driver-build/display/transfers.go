package display

import (
	"cmp"
	"regexp"
	"sync"

	"github.com/driver-container/driver-container/images/progress"
	"github.com/driver-container/driver-container/images/registry"
)

// Transfers turns a registry's events, which are about blobs, into steps: one step for each pull or push,
// open while a blob is being transferred.
type Transfers struct {
	observe progress.Observer
	mu      sync.Mutex
	open    map[string]*transfer
}

type transfer struct {
	step    *progress.Step
	running map[string]bool
}

// NewTransfers passes its steps on to an observer.
func NewTransfers(o progress.Observer) *Transfers {
	return &Transfers{observe: o, open: map[string]*transfer{}}
}

// Event takes an event of the registry.
func (t *Transfers) Event(e registry.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	id := e.Op + " " + e.Ref
	tr := t.open[id]
	if tr == nil {
		tr = &transfer{step: t.observe.Begin(e.Op, e.Ref), running: map[string]bool{}}
		t.open[id] = tr
	}
	name := cmp.Or(e.Called, digests.ReplaceAllString(e.Name, "$1"))
	if e.State != registry.Running && e.State != registry.Done {
		name += " (" + string(e.State) + ")"
	}
	tr.step.Progress(name, e.Current, e.Total)
	if e.State == registry.Running {
		tr.running[e.Name] = true
		return
	}
	delete(tr.running, e.Name)
	if len(tr.running) == 0 {
		_ = tr.step.End(e.State != registry.Done, nil)
		delete(t.open, id)
	}
}

// digests finds digests, of which people read the beginning at most.
var digests = regexp.MustCompile(`\bsha256:([0-9a-f]{12})[0-9a-f]{52}\b`)

// End closes the steps that are open.
func (t *Transfers) End() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, tr := range t.open {
		_ = tr.step.End(false, nil) // what went wrong is in the command's error
	}
	clear(t.open)
}
