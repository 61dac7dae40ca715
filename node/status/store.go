package status

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// Store keeps the status of an instance up to date. It is safe for use by several goroutines.
type Store struct {
	mu      sync.Mutex
	storage Storage // nil: the status is in memory only
	log     *slog.Logger
	now     func() time.Time
	st      Snapshot
	saved   []byte // the last saved status, as JSON without the time
	unsaved bool   // the last save failed, which was logged
	unknown bool   // what an instance before saved: it cannot be read
	changed chan struct{}
}

// NewStore returns a store that begins with a snapshot and saves its changes to storage. Without
// storage (nil) the status stays in memory.
func NewStore(st Snapshot, storage Storage, log *slog.Logger) *Store {
	return &Store{
		storage: storage,
		log:     log,
		now:     time.Now,
		st:      st,
		changed: make(chan struct{}, 1),
	}
}

// InMemory returns a store with the same status that saves nothing: for verbs that do not hold the
// lock.
func (s *Store) InMemory() *Store { return NewStore(s.Get(), nil, s.log) }

// Predecessor returns the status that another instance of the same boot saved. It is empty if there
// is none or if it cannot be read.
func (s *Store) Predecessor() Snapshot {
	if s.storage == nil {
		return Snapshot{}
	}
	old, err := s.storage.Load()
	// only this instance can take down what the status names: one more attempt
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.log.Warn("status of the last instance unknown", "error", err)
		old, err = s.storage.Load()
	}
	s.unknown = err != nil && !errors.Is(err, fs.ErrNotExist)
	if err != nil || old.BootID != s.st.BootID {
		return Snapshot{}
	}
	return old
}

// PredecessorUnknown reports whether Predecessor found a status that it could not read: what the
// instance before has up, and may need, is not known then.
func (s *Store) PredecessorUnknown() bool { return s.unknown }

// Change edits the status, and saves it if the edit made a difference.
func (s *Store) Change(edit func(*Snapshot)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	edit(&s.st)
	if s.st.State != Waiting {
		s.st.WaitsFor = ""
	}
	if s.storage == nil {
		return
	}
	s.st.Updated = time.Time{}
	data, err := json.Marshal(s.st)
	s.st.Updated = s.now().UTC().Truncate(time.Millisecond)
	if err == nil && bytes.Equal(data, s.saved) {
		return
	}
	s.notify()
	if err == nil {
		err = s.save()
	}
	s.reportSave(err)
	if err != nil {
		data = nil
	}
	s.saved = data
}

// save writes the status. What it does not name no successor takes down, so a failure gets one more
// attempt.
func (s *Store) save() error {
	err := s.storage.Save(s.st)
	if err == nil {
		return nil
	}
	return s.storage.Save(s.st)
}

// ChangeUnsaved edits the status without saving it: for an instance that does not hold the lock, or
// no longer holds it.
func (s *Store) ChangeUnsaved(edit func(*Snapshot)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.st.WaitsFor = ""
	edit(&s.st)
	s.st.Updated = s.now().UTC().Truncate(time.Millisecond)
	s.notify()
}

// Changed returns a channel that has an element when Get may return something new. It is for one
// listener, which may be slow: all changes since its last read are one element.
func (s *Store) Changed() <-chan struct{} { return s.changed }

func (s *Store) notify() {
	select {
	case s.changed <- struct{}{}:
	default: // the listener has not received the last change
	}
}

// reportSave logs once why the status cannot be saved, and again after a save that worked: the text
// of an error is another one each time, as it names a temporary file. The driver continues without
// the file: readers see by Updated that it is old.
func (s *Store) reportSave(err error) {
	if err != nil && !s.unsaved {
		s.log.Warn("status not written", "error", err)
	}
	s.unsaved = err != nil
}

// Get returns a copy that the caller may keep.
func (s *Store) Get() Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.st
	st.Phases = slices.Clone(st.Phases)
	st.Warnings = slices.Clone(st.Warnings)
	st.GPUs = slices.Clone(st.GPUs)
	st.Daemons = slices.Clone(st.Daemons)
	st.Holders = slices.Clone(st.Holders)
	return st
}

// Remove removes the status together with the driver.
func (s *Store) Remove() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.saved = nil
	s.st.State = Absent
	s.st.Ready = false
	s.st.Reason = ""
	s.st.Up = nil
	s.notify()
	if err := s.storage.Remove(); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
