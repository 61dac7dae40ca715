package status

import (
	"errors"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/logtest"
)

// countingStorage counts the writes, and fails while it is full.
type countingStorage struct {
	saves int
	full  bool
	st    Snapshot
}

func (c *countingStorage) Load() (Snapshot, error) { return c.st, nil }
func (c *countingStorage) Remove() error           { return nil }
func (c *countingStorage) Save(st Snapshot) error {
	if c.full {
		return errors.New("no space left on device")
	}
	c.saves++
	c.st = st
	return nil
}

func TestStore(t *testing.T) {
	t.Parallel()
	storage, now, log := &countingStorage{}, noon, logtest.Log{}
	s := NewStore(Snapshot{}, storage, log.Logger())
	s.now = func() time.Time { now = now.Add(time.Second); return now }
	s.Set(Starting, "")
	s.Set(Starting, "")
	if first := storage.st.Updated; storage.saves != 1 || !first.After(noon) {
		t.Errorf("the same twice: %d writes, %v", storage.saves, first)
	}
	storage.full = true
	s.Set(Serving, "")
	s.Set(Degraded, "x")
	if len(log.Lines()) != 1 || storage.st.State != Starting {
		t.Errorf("a full disk was told:\n%s", &log)
	}
	storage.full = false
	s.Set(Degraded, "x")
	if storage.st.State != Degraded || storage.saves != 2 {
		t.Errorf("after a failed write: %+v", storage.st)
	}
	s.Change(func(st *Snapshot) { st.Warnings = append(st.Warnings, "w") })
	got := s.Get()
	got.Warnings[0] = "changed"
	if storage.st.Warnings[0] != "w" || s.Get().Ready {
		t.Error("get returns what is not its own")
	}
	quiet := s.InMemory()
	quiet.Set(Failed, "y")
	if storage.st.State != Degraded || quiet.Predecessor().State != "" {
		t.Error("a store in memory saves")
	}
}

func TestPredecessor(t *testing.T) {
	t.Parallel()
	s := NewStore(Snapshot{BootID: "b"}, &countingStorage{st: sample()}, logtest.New(t))
	if got := s.Predecessor(); got.Up == nil {
		t.Errorf("the same boot: %+v", got)
	}
	if s.st.BootID = "another"; s.Predecessor().Up != nil {
		t.Error("what another boot had up is gone")
	}
}
