package status

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
	"time"

	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/releases"
)

var (
	//go:embed page.html
	pageText string
	//go:embed style.css
	styleText string
)

// The states of a cell besides Missing, Old and Unknown. A page shows them with a sign and a word,
// never by colour alone.
const (
	// in the registry, and as the matrix has it as far as was looked at
	Built     State = "built"
	Buildable State = "buildable" // the registry was not asked
	Excluded  State = "excluded"  // a rule says that it cannot work
)

// states is the order in which states are counted and shown.
var states = []State{Built, Old, Missing, Buildable, Unknown, Excluded}

// Page shows the matrix to people: systems by drivers, what is built, what is missing, what cannot
// be built and why. It is one HTML file that needs nothing else: no network, no script, no font.
// Whatever it is given is escaped.
type Page struct {
	Title      string    // "" is "NVIDIA driver images"
	Generated  time.Time // shown in UTC
	Tool       string    // name and version of what made the page
	Matrix     string    // name of the matrix
	Repository string    // that was asked, "" when none was
	// what readers should know, such as that a source could not be reached
	Notes   []string
	Systems []matrix.System // rows, in order
	Drivers []Column        // in order
	// of those systems and drivers, in any order; a pair without any is shown empty
	Cells []Cell
}

// Column is a driver. Drivers of one branch that follow each other share a heading.
type Column struct {
	matrix.Driver
	Of     releases.Coverage // its branch; zero when not known
	CUDA   string            // the highest release that it runs natively, "" when not known
	Runs   string            // how it runs the release of CUDA that was asked for, "" when none was
	Faults []string          // what is known of the release

	// Components are those for NVSwitch and NVLink that images get: "fabricmanager (amd64, arm64)".
	// Unknown are those that NVIDIA has, and whose checksum no public source has.
	Components, Unknown []string
}

// Cell is one image: a system, a driver and an architecture.
type Cell struct {
	Pair
	State State
	// of an excluded cell the rule, of one that is out of date or unknown the reason
	Why     string
	Digest  string    // "sha256:..." of the manifest for the architecture, "" when not known
	Size    int64     // compressed bytes, 0 when not known
	Kernels []string  // series of the system that the modules compile on
	Omitted string    // companions that the image lacks for a kernel, and why
	Modules []string  // kernel releases that the registry has images with compiled modules for
	Created time.Time // zero when not known
}

// view is what the template is given.
type view struct {
	Page
	Style   template.CSS
	Policy  string // Content-Security-Policy
	States  []State
	Counts  map[State]int
	Targets int // cells that a rule does not exclude
	Groups  []*heading
	Rows    []row
}

// heading is that of the drivers of a branch.
type heading struct {
	Column
	Columns int
}

// row is a system with all that is known of it.
type row struct {
	matrix.System
	Boxes    []box
	Lines    []*line // of what can be built, in the order of the columns
	Excluded []*line // of what cannot
	States   string  // keys of all states of its cells
}

// box is one field of the overview: the states of a system and a driver, one an architecture.
type box struct {
	ID     string // of what the field leads to, if it has cells
	Driver string
	Cells  []Cell
	States string
	First  bool // of its branch
}

// Signs are the states as signs: one an architecture, a single one where nothing can be built.
func (b box) Signs() (signs []string) {
	if b.States == Excluded.key() {
		return []string{b.States}
	}
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

// Write writes the page. The same page gives the same bytes.
func (p Page) Write(w io.Writer) error {
	t, err := template.New("page").Funcs(template.FuncMap{
		"key": State.key, "join": strings.Join, "size": size, "anchor": anchor,
	}).Parse(pageText)
	if err != nil {
		return fmt.Errorf("template of the report: %w", err)
	}
	err = t.Execute(w, p.view())
	if err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}

func (p Page) view() view {
	p.Title = cmp.Or(p.Title, "NVIDIA driver images")
	p.Generated = p.Generated.UTC()
	sum := sha256.Sum256([]byte(styleText))
	v := view{
		Page: p, States: states, Counts: map[State]int{},
		Style: template.CSS(styleText), //nolint:gosec // our own file
		Policy: "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(
			sum[:],
		) + "'; img-src data:; base-uri 'none'; form-action 'none'",
	}
	cells := map[string][]Cell{}
	for _, c := range p.Cells {
		at := anchor(c.System, c.Driver)
		cells[at] = append(cells[at], c)
		v.Counts[c.State]++
	}
	v.Targets = len(p.Cells) - v.Counts[Excluded]
	for i, d := range p.Drivers {
		if i == 0 || p.Drivers[i-1].Branch != d.Branch {
			v.Groups = append(v.Groups, &heading{Column: d})
		}
		v.Groups[len(v.Groups)-1].Columns++
	}
	for _, s := range p.Systems {
		v.Rows = append(v.Rows, newRow(s, p.Drivers, cells))
	}
	return v
}

func newRow(s matrix.System, drivers []Column, cells map[string][]Cell) row {
	r := row{System: s}
	var all []Cell
	for n, d := range drivers {
		id := anchor(s.ID, d.Version)
		b := box{
			ID:     id,
			Driver: d.Version,
			Cells:  cells[id],
			First:  n == 0 || drivers[n-1].Branch != d.Branch,
			States: keys(cells[id]),
		}
		slices.SortStableFunc(b.Cells, func(x, y Cell) int {
			return cmp.Or(
				cmp.Compare(slices.Index(s.Archs, x.Arch), slices.Index(s.Archs, y.Arch)),
				strings.Compare(x.Arch, y.Arch),
			)
		})
		all = append(all, b.Cells...)
		r.Boxes = append(r.Boxes, b)
	}
	r.Lines = lines(all, false)
	r.Excluded = lines(all, true)
	r.States = keys(all)
	seen := map[string]bool{} // the first line of a driver has the anchor that its field leads to
	for _, l := range slices.Concat(r.Lines, r.Excluded) {
		for i := range l.Drivers {
			if d := &l.Drivers[i]; !seen[d.Version] {
				d.ID = anchor(s.ID, d.Version)
				seen[d.Version] = true
			}
		}
	}
	return r
}

// key is a state as a word of HTML: in ids and attributes.
func (s State) key() string { return strings.ReplaceAll(string(s), " ", "-") }

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
	if n <= 0 {
		return ""
	}
	return fmt.Sprintf("%.1f MB", float64(n)/1e6)
}
