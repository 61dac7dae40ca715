package kubernetes

import (
	"strings"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/apitest"
	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

// The same reason is sent once in five minutes, and its count is raised.
func TestRecorder(t *testing.T) {
	t.Parallel()
	s, c := start(t)
	now := noon
	r := &Recorder{Client: c, Host: testNode, Now: func() time.Time { return now }}
	pod := Pod("gpu", "driver-x", "uid-1")
	used := Event{About: pod, Warning: true, Reason: "WaitingForHolders", Message: "used by a"}
	record := func(events ...Event) {
		t.Helper()
		for _, e := range events {
			r.Record(e)
		}
		require.NoError(t, r.Send(t.Context(), false))
	}
	reported := func(want ...string) {
		t.Helper()
		assert.Same(t, want, s.Told())
	}
	record(used, Event{About: Node(testNode), Reason: "Serving", Message: "it serves"})
	reported("Node Normal Serving x1: it serves", "Pod Warning WaitingForHolders x1: used by a")
	now = now.Add(time.Minute)
	record(used, used)
	reported("Node Normal Serving x1: it serves", "Pod Warning WaitingForHolders x1: used by a")
	now = noon.Add(5 * time.Minute)
	record()
	reported("Node Normal Serving x1: it serves", "Pod Warning WaitingForHolders x3: used by a")
	other := used
	other.Message = "used by b"
	record(other, other)
	if err := r.Send(t.Context(), true); err != nil { // the last message does not wait
		t.Fatal(err)
	}
	reported("Node Normal Serving x1: it serves", "Pod Warning WaitingForHolders x2: used by b", "Pod Warning WaitingForHolders x3: used by a")
	s.Do(func(st *apitest.State) { st.Events = nil }) // as after an hour
	now = now.Add(time.Hour)
	record(other)
	reported("Pod Warning WaitingForHolders x1: used by b")
	for name := range 2 * maxEntries {
		r.Record(Event{About: pod, Reason: strings.Repeat("x", name+1)})
	}
	assert.Equalf(t, maxEntries, len(r.entries), "entries")
}

// Events that could not be sent stay pending; those that can never be sent return the reason.
func TestRecorderFails(t *testing.T) {
	t.Parallel()
	s, c := start(t)
	r := &Recorder{Client: c, Now: func() time.Time { return noon }}
	s.Do(func(st *apitest.State) { st.Down = true })
	r.Record(Event{About: Pod("gpu", strings.Repeat("x", 250), ""), Reason: "A", Message: strings.Repeat("é", 2000)})
	assert.ErrorIsf(t, r.Send(t.Context(), false), ErrUnreachable, "down")
	s.Do(func(st *apitest.State) { st.Down = false })
	if err := r.Send(t.Context(), false); err != nil || len(s.Told()) != 1 {
		t.Errorf("again: %v, %v", err, s.Told())
	}
	for _, about := range []Object{Pod("", "x", ""), Pod("gpu", "", ""), Node("")} {
		r := &Recorder{Client: c, Now: func() time.Time { return noon }}
		r.Record(Event{About: about, Reason: "A"})
		assert.ErrorIsf(t, r.Send(t.Context(), false), ErrNoCluster, "%+v", about)
	}
}
