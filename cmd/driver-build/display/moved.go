package display

import (
	"fmt"
	"strings"
	"time"

	"github.com/driver-container/driver-container/images/progress"
)

// moved is how far a step is: the files that it gets, what it does with them, the steps of a compile.
type moved struct {
	files, work group
	last        *group
	count       string
}

// group is what is known of items whose bytes can be added up. What was there when an item appeared does not
// count for the speed: the rest of a download that goes on, a blob that the registry has.
type group struct {
	items          map[string]progress.Event
	since, until   time.Time
	current, total int64 // of all items
	moved          int64
	whole, endless int // items
}

// minTime is how long a step has to move bytes until its speed says something.
const minTime = time.Second

func (m *moved) add(e progress.Event) {
	if e.Item == "" {
		return
	}
	switch e.Kind {
	case progress.Steps:
		m.count = fmt.Sprintf("%d/%d", e.Current, e.Total)
	case progress.Work:
		m.last = &m.work
		if _, known := m.work.items[e.Item]; !known {
			m.work = group{} // what is done next is no part of it
		}
		m.work.add(e)
	default:
		m.last = &m.files
		m.files.add(e)
	}
}

func (g *group) add(e progress.Event) {
	if g.items == nil {
		g.since, g.items = e.Time, map[string]progress.Event{}
	}
	before, known := g.items[e.Item]
	g.items[e.Item] = e
	if known {
		g.moved += max(0, e.Current-before.Current)
		g.whole -= ended(before)
		g.endless -= endless(before)
	}
	g.until = e.Time
	g.current += e.Current - before.Current
	g.total += e.Total - before.Total
	g.whole += ended(e)
	g.endless += endless(e)
}

func ended(e progress.Event) int {
	if e.Total > 0 && e.Current >= e.Total {
		return 1
	}
	return 0
}

func endless(e progress.Event) int {
	if e.Total == 0 {
		return 1
	}
	return 0
}

// text is what people read, "" if nothing was moved. done is for a step that has ended.
func (m *moved) text(done bool) string {
	g := m.last
	if m.count != "" && !done {
		return m.count
	}
	if done && m.files.items != nil {
		g = &m.files
	}
	if g == nil {
		return ""
	}
	name, n := fmt.Sprintf("%d/%d files", g.whole, len(g.items)), len(g.items)
	switch {
	case n == 1:
		for only := range g.items {
			name = only
		}
	case g.whole == n:
		name = fmt.Sprintf("%d files", n)
	}
	parts := []string{name, g.size()}
	if took := g.until.Sub(g.since); took >= minTime && g.moved > 0 {
		parts = append(parts, fmt.Sprintf("%.1f MB/s", float64(g.moved)/1e6/took.Seconds()))
	}
	return strings.Join(parts, " ")
}

// size is what there is of the items, and if that is not all, of how much.
func (g *group) size() string {
	unit, name := 1e6, "MB"
	if max(g.current, g.total) < 1e6 {
		unit, name = 1e3, "kB"
	}
	if g.endless > 0 || g.current >= g.total {
		return fmt.Sprintf("%.1f %s", float64(g.current)/unit, name)
	}
	return fmt.Sprintf("%.1f/%.1f %s", float64(g.current)/unit, float64(g.total)/unit, name)
}

// minPrefix is what is left at least of "535.261.03-debian12 amd64" on a terminal with few columns.
const minPrefix = 12

// fit puts the name of a step and what it moved into a number of columns. What is too long is taken out of
// the middle of the prefix, "[535.261.03-debian12 amd64]", whose beginning and end tell images apart, then
// from the end.
func fit(name, text string, room int) string {
	if text != "" {
		text = ": " + text
	}
	prefix, rest, found := strings.Cut(strings.TrimPrefix(name, "["), "]")
	left := room - len(rest) - len(text) - 2
	switch {
	case len(name)+len(text) <= room:
	case found && left >= minPrefix:
		end := (left - 2) / 2
		name = "[" + prefix[:left-2-end] + ".." + prefix[len(prefix)-end:] + "]" + rest
	case room-len(text) >= minPrefix:
		name = name[:room-len(text)-2] + ".."
	default:
		text = ""
	}
	return name + text
}
