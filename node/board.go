package node

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"slices"
	"sync"
	"time"
)

// board keeps the status up to date. It may be used by several goroutines.
type board struct {
	mu    sync.Mutex
	shelf shelf // nil: nobody is told
	say   func(format string, args ...any)
	now   func() time.Time
	st    Status
	last  []byte // what was saved, as JSON without the time
	err   string // why the last save failed, said once

	changed chan struct{} // has one place; nil: nobody listens
}

// adoptFile reads what a predecessor of the same boot wrote; nothing when there is none or it cannot be read.
func (b *board) adoptFile() Status {
	if b.shelf == nil {
		return Status{}
	}
	old, err := b.shelf.load()
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // what it names can be taken down by nobody else: one more try
		b.say("warning: what the last instance left is not known: %v", err)
		old, err = b.shelf.load()
	}
	if err != nil || old.BootID != b.st.BootID {
		return Status{}
	}
	return old
}

// change edits the status and writes it when that made a difference.
func (b *board) change(edit func(*Status)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	edit(&b.st)
	if b.st.State != Waiting {
		b.st.WaitsFor = ""
	}
	if b.shelf == nil {
		return
	}
	b.st.Updated = time.Time{}
	data, err := json.Marshal(b.st)
	b.st.Updated = b.now().UTC().Truncate(time.Millisecond)
	if err == nil && bytes.Equal(data, b.last) {
		return
	}
	b.signal()
	if err == nil {
		err = b.shelf.save(b.st)
	}
	b.told(err)
	if b.last = data; err != nil {
		b.last = nil
	}
}

// keep edits the status without writing it: for an instance that does not have the node (yet, or any more).
func (b *board) keep(edit func(*Status)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.st.WaitsFor = ""
	edit(&b.st)
	b.st.Updated = b.now().UTC().Truncate(time.Millisecond)
	b.signal()
}

// signal tells the listener, who may be busy, that there is something new.
func (b *board) signal() {
	select {
	case b.changed <- struct{}{}:
	default:
	}
}

// told says once why the status cannot be kept. The driver's life goes on without: who reads it sees by Updated that it is old.
func (b *board) told(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != b.err && text != "" {
		b.say("warning: the status could not be written: %v", err)
	}
	b.err = text
}

// set is the usual change.
func (b *board) set(state State, reason string) {
	b.change(func(st *Status) { st.State, st.Ready, st.Reason = state, state == Serving, reason })
}

// get returns a copy that may be kept.
func (b *board) get() Status {
	b.mu.Lock()
	defer b.mu.Unlock()
	st := b.st
	st.Phases, st.Warnings, st.GPUs = slices.Clone(st.Phases), slices.Clone(st.Warnings), slices.Clone(st.GPUs)
	st.Daemons, st.Holders = slices.Clone(st.Daemons), slices.Clone(st.Holders)
	return st
}

// remove ends the status together with the driver.
func (b *board) remove() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last = nil
	b.st.State, b.st.Ready, b.st.Reason, b.st.Up = Absent, false, "", nil
	b.signal()
	if err := b.shelf.remove(); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// mute returns a board that keeps its status to itself: for verbs that do not have the node.
func (b *board) mute() *board { return &board{now: b.now, st: b.st} }
