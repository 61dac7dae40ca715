package status

import (
	"fmt"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/logtest"
)

// countingStorage counts the writes, and fails while it is full, each time with another text, or once.
type countingStorage struct {
	saves, failures int
	full, once      bool
	st              Snapshot
}

func (c *countingStorage) Load() (Snapshot, error) { return c.st, nil }
func (c *countingStorage) Remove() error           { return nil }
func (c *countingStorage) Save(st Snapshot) error {
	if c.full || c.once {
		c.once = false
		c.failures++
		return fmt.Errorf("write status.json.tmp-%d: no space left on device", c.failures)
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
	assert.Equalf(t, 1, len(log.Lines()), "a full disk was told:\n%s", &log)
	assert.Equal(t, Starting, storage.st.State)
	storage.full = false
	s.Set(Degraded, "x")
	assert.Equalf(t, Degraded, storage.st.State, "after a failed write")
	assert.Equal(t, 2, storage.saves)
	storage.once = true
	s.Set(Serving, "")
	assert.Equalf(t, Serving, storage.st.State, "a write that failed once")
	storage.full = true
	s.Set(Degraded, "x")
	assert.Equalf(t, 2, len(log.Lines()), "a disk that is full again was told again:\n%s", &log)
	storage.full = false
	s.Set(Degraded, "y")
	s.Change(func(st *Snapshot) { st.Warnings = append(st.Warnings, "w") })
	got := s.Get()
	got.Warnings[0] = "changed"
	assert.Equal(t, "w", storage.st.Warnings[0])
	assert.Equalf(t, false, s.Get().Ready, "get returns what is not its own")
	quiet := s.InMemory()
	quiet.Set(Failed, "y")
	assert.Equalf(t, Degraded, storage.st.State, "a store in memory saves")
	assert.Equal(t, State(""), quiet.Predecessor().State)
}

func TestPredecessor(t *testing.T) {
	t.Parallel()
	s := NewStore(Snapshot{BootID: "b"}, &countingStorage{st: sample()}, logtest.New(t))
	assert.Equalf(t, true, s.Predecessor().Up != nil, "the same boot")
	if s.st.BootID = "another"; s.Predecessor().Up != nil {
		t.Error("what another boot had up is gone")
	}
}
