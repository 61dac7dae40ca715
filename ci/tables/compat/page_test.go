package main

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/goldentest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/images/matrix"
)

// TestPage: the matrix says of each combination in docs/compat.md what the compiler said. With -update the
// page's last two tables follow the matrix.
func TestPage(t *testing.T) {
	t.Parallel()
	const name = "../../../docs/compat.md"
	page := string(require.Value(os.ReadFile(name))(t))
	m := require.Value(matrix.Parse("matrix.yaml", require.Value(os.ReadFile("../../../matrix.yaml"))(t)))(t)
	cells := fromPage(t, m, page)
	for _, c := range cells {
		c.Rules = require.Value(against(m, c))(t)
		if c.Result == nil && c.Patches != "" {
			continue // the page says so
		}
		if c.Companion != nil {
			if c.Result != nil && c.Result.Outcome == fails {
				assert.Equalf(t, false, c.Rules == "", "%s: the matrix allows it, and it fails: %s", c, c.Result.Error)
			}
			continue
		}
		assert.Equalf(t, "yes", agreement(c), "%s: the matrix says %q, the compile %s (%s)", c, c.Rules, c.Result.Outcome, refusal(c))
	}
	text, _ := render(cells)
	const last = "\n## What the matrix says\n"
	front, _, _ := strings.Cut(page, last)
	_, table, _ := strings.Cut(text, last)
	goldentest.Compare(t, name, front+last+table)
}

// fromPage reads the kernels and the results of a page.
func fromPage(t *testing.T, m *matrix.Matrix, page string) (cells []*cell) {
	t.Helper()
	bySeries := map[string]*cell{} // with the system and the kernel alone
	heading, want := "", 0
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, "## ") {
			heading = strings.TrimSpace(line)
		}
		col := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		for i := range col {
			col[i] = strings.TrimSpace(col[i])
		}
		at := slices.IndexFunc(drivers, func(d driver) bool { return len(col) > 6 && d.version == col[1] })
		switch {
		case slices.Contains(systems, col[0]):
			on := &cell{System: col[0], Kernel: kernel{Release: col[1], Version: col[2]}}
			bySeries[on.series()] = on
			continue
		case at < 0 || heading == "## What the matrix says":
			continue
		case bySeries[col[0]] == nil:
			t.Fatalf("the page has results for kernel %s and no such kernel", col[0])
		}
		c := *bySeries[col[0]]
		c.Driver, c.Flavour = drivers[at], col[2]
		if heading == "## Companions" {
			c.Patches, c.Result = col[3], pageResult(col[5], col[6], col[7])
			c.Companion = named(m, col[4])
		} else {
			c.Patches, c.Result = col[5], pageResult(col[3], col[6], col[7])
		}
		if c.Patches == "none" {
			c.Patches = ""
		}
		cells = append(cells, &c)
	}
	for _, on := range bySeries {
		for _, d := range drivers {
			for _, flavour := range d.flavours() {
				c := *on
				c.Driver, c.Flavour = d, flavour
				for _, c.Patches = range variants(m, d, flavour) {
					want++
				}
				c.Rules = require.Value(against(m, &c))(t)
				want += len(require.Value(withCompanions(m, &c))(t))
			}
		}
	}
	if len(cells) != want {
		t.Fatalf("the page has %d results, not %d", len(cells), want)
	}
	return cells
}

// pageResult returns a result as the page has it.
func pageResult(source, outcome, detail string) *result {
	if outcome == "not run" {
		return nil
	}
	r := &result{Outcome: fails, Source: source, Error: strings.ReplaceAll(strings.Trim(detail, "` |"), `\|`, "|"), Date: "never"}
	if outcome == compiles || strings.HasPrefix(outcome, compilesBut) {
		r.Outcome = compiles
	} else if strings.HasPrefix(outcome, "not known") {
		r.Outcome = trouble
	}
	return r
}

// named returns the companion of a name and a version: "nvidia-fs 2.13.5".
func named(m *matrix.Matrix, words string) *matrix.Companion {
	for _, c := range m.Companions {
		if c.Name+" "+c.Version == words {
			return &c
		}
	}
	return &matrix.Companion{Name: words}
}
