package display

import (
	"fmt"
	"time"

	"github.com/driver-container/driver-container/images/progress"
)

// rate counts the bytes that a step moves. What was there when an item appeared does not count: the rest of a
// download that goes on, a blob that the registry has.
type rate struct {
	since time.Time
	moved int64
	items map[string]int64
}

// minTime is how long a step has to move bytes until its rate says something.
const minTime = time.Second

// add takes an event about an item, and returns the rate until then: " 12.3 MB/s", "" if it is not known.
func (r *rate) add(e progress.Event) string {
	if r.items == nil {
		r.since, r.items = e.Time, map[string]int64{}
	}
	before, known := r.items[e.Item]
	r.items[e.Item] = e.Current
	if known && e.Current > before {
		r.moved += e.Current - before
	}
	took := e.Time.Sub(r.since)
	if took < minTime || r.moved == 0 {
		return ""
	}
	return fmt.Sprintf(" %.1f MB/s", float64(r.moved)/1e6/took.Seconds())
}
