package session

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/moby/buildkit/client"
	"github.com/moby/buildkit/util/progress/progressui"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/images/progress"
)

var errReason = errors.New("the mirror is gone")

func shown(mode progressui.DisplayMode) *display {
	return &display{mode: mode, steps: map[string]*step{}}
}

// TestOneLine: a step is one line: how many files it has and how much of them, then what it does with them.
func TestOneLine(t *testing.T) {
	t.Parallel()
	d := shown(progressui.TtyMode)
	name := ""
	const head = "[535.261.03-debian12 amd64] packages layer"
	for _, e := range []struct {
		progress.Event
		want string
	}{
		{progress.Event{Started: true}, head},
		{progress.Event{Item: "a.deb", Current: 40e6, Total: 100e6}, head + ": a.deb 40.0MB/100.0MB"},
		{progress.Event{Item: "b.deb", Current: 7e6, Total: 7e6}, head + ": 1/2 files 47.0MB/107.0MB"},
		{progress.Event{Item: "a.deb", Current: 100e6, Total: 100e6}, head + ": 2/2 files 107.0MB"},
		{progress.Event{Item: "compress", Kind: progress.Work, Current: 1200, Total: 5000}, head + ": compress 1.2kB/5.0kB"},
		{progress.Event{Item: "steps", Kind: progress.Steps, Current: 65, Total: 477}, head + ": 65/477"},
		{progress.Event{Completed: true}, head + ": 2/2 files 107.0MB"},
	} {
		e.Step, e.Name = "1", head
		status := d.status(e.Event)
		assert.Equal(t, 0, len(status.Statuses))
		for _, v := range status.Vertexes {
			name = v.Name
		}
		assert.Equal(t, e.want, name)
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

// TestCanceled: a step that a signal stopped did not fail.
func TestCanceled(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	d := require.Value(newDisplay(&out, "plain"))(t)
	stop := fmt.Errorf("boot: %w", SignalError{Signal: syscall.SIGINT})
	_ = progress.Observer(d.Observe).Begin("a amd64", "boot").End(false, stop)
	assert.NoError(t, d.Close())
	assert.Contains(t, out.String(), "\n#1 CANCELED\n")
}

// TestErrorOnce: the command prints the error; the display says which step it was.
func TestErrorOnce(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"plain", "json"} {
		var out strings.Builder
		d, err := newDisplay(&out, mode)
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
		assert.Equalf(t, mode == "plain", strings.Contains(text, "\n#1 ERROR\n"), "%s", text)
	}
}
