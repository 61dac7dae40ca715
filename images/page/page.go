package page

import (
	"cmp"
	"crypto/sha256"
	_ "embed" // the template and its style
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
)

var (
	//go:embed page.html
	pageText string
	//go:embed style.css
	styleText string
)

// states is the order in which states are counted and shown.
var states = []State{Built, OutOfDate, Missing, Buildable, Unknown, Excluded}

// key is a state as a word of HTML: in ids and attributes.
func (s State) key() string { return strings.ReplaceAll(string(s), " ", "-") }

// page is what the template is given.
type page struct {
	Report
	Style   template.CSS
	Policy  string // Content-Security-Policy
	Counts  []count
	Targets int // cells that a rule does not exclude
	Groups  []group
	Rows    []row
}

// count is a number of the summary.
type count struct {
	State State
	Key   string
	N     int
}

// group is the heading of the drivers of a branch.
type group struct {
	Branch, Kind, End string
	Over              bool
	Columns           int
}

// row is a system with all that is known of it.
type row struct {
	System
	Boxes    []box
	Lines    []line // of what can be built, in the order of the columns
	Excluded []line // of what cannot
	States   string // keys of all states of its cells
}

// box is one field of the overview: the states of a system and a driver, one an architecture.
type box struct {
	ID     string // of what the field leads to
	Driver string
	Cells  []Cell
	States string
	First  bool // of its branch
}

// Signs are the states as signs: one an architecture, a single one where nothing can be built.
func (b box) Signs() []string {
	if b.States == Excluded.key() {
		return []string{b.States}
	}
	var signs []string
	for _, c := range b.Cells {
		signs = append(signs, c.State.key())
	}
	return signs
}

// Says are the states in words: "amd64 built, arm64 missing".
func (b box) Says() string {
	var parts []string
	for _, c := range b.Cells {
		parts = append(parts, c.Arch+" "+string(c.State))
	}
	return strings.Join(parts, ", ")
}

// Write writes the page. The same report gives the same bytes.
func Write(w io.Writer, r Report) error {
	t, err := template.New("page").Funcs(template.FuncMap{
		"key": State.key, "join": strings.Join, "size": size, "anchor": anchor,
	}).Parse(pageText)
	if err != nil {
		return fmt.Errorf("template of the report: %w", err)
	}
	if err := t.Execute(w, r.page()); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}

func (r Report) page() page {
	r.Title = cmp.Or(r.Title, "NVIDIA driver images")
	r.Generated = r.Generated.UTC()
	sum := sha256.Sum256([]byte(styleText))
	p := page{
		Report: r,
		Style:  template.CSS(styleText), //nolint:gosec // our own file
		Policy: "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; img-src data:; base-uri 'none'; form-action 'none'",
	}
	cells := map[[2]string][]Cell{}
	n := map[State]int{}
	for _, c := range r.Cells {
		if !slices.Contains(states, c.State) {
			c.State = Unknown
		}
		at := [2]string{c.System, c.Driver}
		cells[at] = append(cells[at], c)
		n[c.State]++
	}
	for _, s := range states {
		if n[s] > 0 {
			p.Counts = append(p.Counts, count{s, s.key(), n[s]})
		}
		if s != Excluded {
			p.Targets += n[s]
		}
	}
	for _, d := range r.Drivers {
		if last := len(p.Groups) - 1; last >= 0 && p.Groups[last].Branch == d.Branch {
			p.Groups[last].Columns++
			continue
		}
		p.Groups = append(p.Groups, group{d.Branch, d.Kind, d.End, d.Over, 1})
	}
	for _, s := range r.Systems {
		p.Rows = append(p.Rows, newRow(s, r.Drivers, cells))
	}
	return p
}

func newRow(s System, drivers []Driver, cells map[[2]string][]Cell) row {
	r := row{System: s}
	var all, good, excluded []Cell
	for n, d := range drivers {
		b := box{Driver: d.Version, Cells: cells[[2]string{s.ID, d.Version}], First: n == 0 || drivers[n-1].Branch != d.Branch}
		slices.SortStableFunc(b.Cells, func(x, y Cell) int {
			return cmp.Or(cmp.Compare(slices.Index(s.Archs, x.Arch), slices.Index(s.Archs, y.Arch)), strings.Compare(x.Arch, y.Arch))
		})
		if len(b.Cells) > 0 {
			b.ID = anchor(s.ID, d.Version)
		}
		b.States = keys(b.Cells)
		all = append(all, b.Cells...)
		for _, c := range b.Cells {
			if c.State == Excluded {
				excluded = append(excluded, c)
			} else {
				good = append(good, c)
			}
		}
		r.Boxes = append(r.Boxes, b)
	}
	r.Lines, r.Excluded, r.States = lines(good), lines(excluded), keys(all)
	lead(s.ID, r.Lines, r.Excluded)
	return r
}

// keys are the states of cells as words, each once.
func keys(cells []Cell) string {
	var all []string
	for _, s := range states {
		if slices.ContainsFunc(cells, func(c Cell) bool { return c.State == s }) {
			all = append(all, s.key())
		}
	}
	return strings.Join(all, " ")
}

// anchor is the id of the place that tells all of a pair.
func anchor(system, driver string) string { return system + "-" + driver }

// size is a number of bytes for people.
func size(n int64) string {
	switch {
	case n <= 0:
		return ""
	case n < 1e6:
		return fmt.Sprintf("%.1f kB", float64(n)/1e3)
	case n < 1e9:
		return fmt.Sprintf("%.1f MB", float64(n)/1e6)
	}
	return fmt.Sprintf("%.2f GB", float64(n)/1e9)
}
