package display

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/moby/buildkit/client"
	"github.com/moby/buildkit/util/progress/progressui"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/images/progress"
)

var errReason = errors.New("the mirror is gone")

func shown(mode progressui.DisplayMode) *Display {
	return &Display{mode: mode, width: func() int { return 80 }, steps: map[string]*step{}}
}

// TestItemsEndWithTheirStep: for programs, nothing counts on after its step, whether its size is known or not.
func TestItemsEndWithTheirStep(t *testing.T) {
	t.Parallel()
	d := shown(progressui.RawJSONMode)
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

// TestOneLine: a step is one line that fits 80 columns: how many files it has, how much of them, how fast,
// without what was there before; then what it does with them.
func TestOneLine(t *testing.T) {
	t.Parallel()
	d := shown(progressui.TtyMode)
	start := time.Unix(100, 0)
	name := ""
	const long, head = "[535.261.03-6.1.0-56-cloud-amd64-debian12 amd64] packages layer", "[535.261.03-debian12 amd64] packages layer"
	for _, e := range []struct {
		progress.Event
		want string
	}{
		{progress.Event{Name: head, Started: true}, head},
		{progress.Event{Name: head, Item: "a.deb", Current: 40e6, Total: 100e6}, head + ": a.deb 40.0/100.0 MB"}, // it goes on where it was
		{progress.Event{Name: head, Time: start.Add(time.Second), Item: "a.deb", Current: 50e6, Total: 100e6}, "[535.261...12 amd64] packages layer: a.deb 50.0/100.0 MB 10.0 MB/s"},
		{progress.Event{Name: head, Time: start.Add(time.Second), Item: "b.deb", Current: 7e6, Total: 7e6}, "[535.26.. amd64] packages layer: 1/2 files 57.0/107.0 MB 10.0 MB/s"},
		{progress.Event{Name: head, Time: start.Add(2 * time.Second), Item: "a.deb", Current: 100e6, Total: 100e6}, "[535.261.03..n12 amd64] packages layer: 2 files 107.0 MB 30.0 MB/s"},
		{progress.Event{Name: head, Item: "compress", Kind: progress.Work, Current: 1200, Total: 5000}, head + ": compress 1.2/5.0 kB"},
		{progress.Event{Name: head, Item: "steps", Kind: progress.Steps, Current: 65, Total: 477}, head + ": 65/477"},
		{progress.Event{Name: long, Item: "steps", Kind: progress.Steps, Current: 65, Total: 477}, "[535.261.03-6.1.0-56-..md64-debian12 amd64] packages layer: 65/477"},
		{progress.Event{Name: head, Completed: true}, "[535.261.03..n12 amd64] packages layer: 2 files 107.0 MB 30.0 MB/s"},
	} {
		e.Step = "1"
		if e.Time.IsZero() {
			e.Time = start
		}
		status := d.status(e.Event)
		assert.Equal(t, 0, len(status.Statuses))
		for _, v := range status.Vertexes {
			name = v.Name
		}
		assert.Equal(t, e.want, name)
		if len(name)+len(" => ")+len(" 1234.5s") > 80 {
			t.Errorf("%d columns: %s", len(name), name)
		}
	}
}

// TestSharedStep: a step that two callers are in at a time lasts from the first begin to the last end. One
// that began again would have two beginnings and one end, and BuildKit's display would count on.
func TestSharedStep(t *testing.T) {
	t.Parallel()
	d := shown(progressui.TtyMode)
	start := time.Unix(100, 0)
	var last *client.Vertex
	for n, e := range []progress.Event{{Started: true}, {Started: true}, {Completed: true}, {Completed: true, Cached: true}} {
		e.Step, e.Name, e.Time = "1", "[a amd64] description layer", start.Add(time.Duration(n)*time.Second)
		for _, v := range d.status(e).Vertexes {
			last = v
			assert.Equalf(t, start, *v.Started, "event %d", n)
			assert.Equalf(t, n == 3, v.Completed != nil, "event %d", n)
		}
	}
	assert.Equal(t, false, last.Cached)
}

// TestErrorOnce: the command prints the error; the display says which step it was.
func TestErrorOnce(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"plain", "json"} {
		var out strings.Builder
		d, err := New(&out, mode)
		assert.NoError(t, err)
		step := progress.Observer(d.Observe).Begin("a amd64", "download")
		step.Note("a warning")
		_ = step.End(false, errReason)
		assert.NoError(t, d.Close())
		text := out.String()
		assert.Equalf(t, mode == "json", strings.Contains(text, errReason.Error()), "%s", text)
		assert.Equalf(t, 1, strings.Count(text, "a warning")+strings.Count(text, "YSB3YXJuaW5n"), "%s", text)
		assert.Containsf(t, text, "a amd64", "%s", mode)
		assert.Equalf(t, false, strings.Contains(text, "-----"), "%s", text)
	}
}
