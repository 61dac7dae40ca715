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

// TestRate: the name of a step says how fast it is, after a second, without what was there before.
func TestRate(t *testing.T) {
	t.Parallel()
	d := &Display{shown: map[string]*client.Vertex{}, open: map[string][]*client.VertexStatus{}, rates: map[string]*rate{}}
	start := time.Unix(100, 0)
	name := ""
	for _, e := range []struct {
		progress.Event
		want string
	}{
		{progress.Event{Step: "1", Name: "pull", Time: start, Started: true}, "pull"},
		{progress.Event{Step: "1", Name: "pull", Time: start, Item: "a", Current: 40e6, Total: 100e6}, "pull"}, // it goes on where it was
		{progress.Event{Step: "1", Name: "pull", Time: start.Add(time.Second / 2), Item: "a", Current: 50e6, Total: 100e6}, "pull"},
		{progress.Event{Step: "1", Name: "pull", Time: start.Add(time.Second), Item: "b", Current: 7e6, Total: 7e6}, "pull 10.0 MB/s"},
		{progress.Event{Step: "1", Name: "pull", Time: start.Add(2 * time.Second), Item: "a", Current: 100e6, Total: 100e6}, "pull 30.0 MB/s"},
		{progress.Event{Step: "1", Name: "pull", Time: start.Add(9 * time.Second), Completed: true}, "pull 30.0 MB/s"},
	} {
		for _, v := range d.status(e.Event).Vertexes {
			name = v.Name
		}
		assert.Equal(t, e.want, name)
	}
}
