package layer

import (
	"context"
	"errors"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/images/progress"
)

// TestNote: a repository that fails is noted once, an image that is not used each time.
func TestNote(t *testing.T) {
	t.Parallel()
	var notes []string
	f := NewFinder(context.Background(), FinderOptions{Observe: func(e progress.Event) {
		if e.Note != "" {
			notes = append(notes, e.Note)
		}
	}})
	f.note("h.example:5000/a", "h.example:5000/a:1", errors.New("no\nanswer"))
	f.note("h.example:5000/a", "h.example:5000/a:2", errors.New("no answer"))
	f.note("h.example:5000/b", "h.example:5000/b:1", errNotUsed)
	f.note("h.example:5000/b", "h.example:5000/b:2", errNotUsed)
	f.note("h.example:5000/b", "h.example:5000/b:3", errNoted)
	assert.Same(t, []string{
		"warning: no layers are taken from h.example:5000/a, and the build goes on without: no answer",
		"warning: h.example:5000/b:1: its layers are not used", "warning: h.example:5000/b:2: its layers are not used",
	}, notes)
}
