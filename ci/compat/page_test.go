package main

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/goldentest"
	"github.com/driver-container/driver-container/ci/require"
	"github.com/driver-container/driver-container/images/matrix"
)

// TestPage: the matrix says of each combination in docs/compat.md what the compiler said. With -update the
// page's last table follows the matrix.
func TestPage(t *testing.T) {
	t.Parallel()
	const name = "../../docs/compat.md"
	page := string(require.Value(os.ReadFile(name))(t))
	m := require.Value(matrix.Parse("matrix.yaml", require.Value(os.ReadFile("../../matrix.yaml"))(t)))(t)
	cells := fromPage(t, m, page)
	for _, c := range cells {
		if c.Result == nil && c.Patches != "" {
			continue // the page says so
		}
		c.Rules = require.Value(against(m, c))(t)
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
	type system struct {
		name   string
		kernel kernel
	}
	bySeries := map[string]system{}
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, "## What the matrix says") {
			break
		}
		col := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		for i := range col {
			col[i] = strings.TrimSpace(col[i])
		}
		if at := slices.IndexFunc(drivers, func(d driver) bool { return len(col) > 6 && d.version == col[1] }); at >= 0 {
			on, ok := bySeries[col[0]]
			if !ok {
				t.Fatalf("the page has results for kernel %s and no such kernel", col[0])
			}
			r := &result{Outcome: fails}
			if col[6] == "not run" {
				r = nil
			} else if col[6] == compiles || strings.HasPrefix(col[6], compilesBut) {
				r.Outcome = compiles
			}
			c := &cell{System: on.name, Kernel: on.kernel, Driver: drivers[at], Flavour: col[2], Result: r}
			if col[5] != "none" {
				c.Patches = col[5]
			}
			cells = append(cells, c)
		} else if slices.Contains(systems, col[0]) {
			on := system{col[0], kernel{Release: col[1], Version: col[2]}}
			bySeries[(&cell{Kernel: on.kernel}).series()] = on
		}
	}
	want := 0
	for _, d := range drivers {
		for _, flavour := range d.flavours() {
			want += len(systems) * len(variants(m, d, flavour))
		}
	}
	if len(cells) != want {
		t.Fatalf("the page has %d results, not %d", len(cells), want)
	}
	return cells
}
