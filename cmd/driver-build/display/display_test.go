package display

import (
	"testing"
	"time"

	"github.com/moby/buildkit/client"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/images/progress"
)

// TestItemsEndWithTheirStep: nothing counts on after its step, whether its size is known or not.
func TestItemsEndWithTheirStep(t *testing.T) {
	t.Parallel()
	d := &Display{shown: map[string]*client.Vertex{}, open: map[string][]*client.VertexStatus{}}
	start := time.Unix(100, 0)
	end := start.Add(time.Second)
	ended := map[string]bool{}
	for _, e := range []progress.Event{
		{Step: "1", Name: "one", Time: start, Started: true},
		{Step: "2", Name: "two", Time: start, Started: true},
		{Step: "1", Item: "whole", Current: 5, Total: 5, Time: start},
		{Step: "1", Item: "cut", Current: 3, Total: 5, Time: start},
		{Step: "1", Item: "unknown", Current: 3, Time: start},
		{Step: "1", Item: "unknown", Current: 7, Time: start},
		{Step: "2", Item: "other", Current: 1, Time: start},
		{Step: "1", Time: end, Completed: true},
	} {
		for _, s := range d.status(e).Statuses {
			if ended[s.ID] {
				t.Errorf("%s ended twice", s.ID)
			}
			ended[s.ID] = s.Completed != nil
			if e.Completed && s.ID == "unknown" {
				assert.Equal(t, 7, s.Current)
				assert.Equal(t, end, *s.Completed)
			}
		}
	}
	for id, want := range map[string]bool{"whole": true, "cut": true, "unknown": true, "other": false} {
		assert.Equalf(t, want, ended[id], "%s", id)
	}
}
