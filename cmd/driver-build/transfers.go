package main

import (
	"sync"

	"github.com/driver-container/driver-container/images/progress"
	"github.com/driver-container/driver-container/images/registry"
)

// transfers turns a registry's events, which are about blobs, into steps: one a pull or push, open while a blob is on its way.
type transfers struct {
	observe progress.Observer
	mu      sync.Mutex
	open    map[string]*transfer
}

type transfer struct {
	step    *progress.Step
	running map[string]bool
}

func newTransfers(o progress.Observer) *transfers {
	return &transfers{observe: o, open: map[string]*transfer{}}
}

func (t *transfers) event(e registry.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	id := e.Op + " " + e.Ref
	tr := t.open[id]
	if tr == nil {
		tr = &transfer{step: t.observe.Begin(e.Op, e.Ref), running: map[string]bool{}}
		t.open[id] = tr
	}
	name := e.Name
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

func (t *transfers) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, tr := range t.open {
		_ = tr.step.End(false, nil) // what went wrong is in the command's error
	}
	clear(t.open)
}
