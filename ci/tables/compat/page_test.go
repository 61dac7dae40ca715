package main

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/goldentest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/images/batch"
	"github.com/driver-container/driver-container/images/matrix"
)

// TestPage: the matrix says of each combination in docs/compat.md what the compiler said. With -update the
// page's last two tables follow the matrix.
func TestPage(t *testing.T) {
	t.Parallel()
	const name, last = "../../../docs/compat.md", "\n## What the matrix says\n"
	page := testfile.Read(t, name)
	m := require.Value(batch.ReadMatrix("../../../matrix.yaml", nil, nil))(t)
	cells := fromPage(t, m, page)
	for _, c := range cells {
		switch {
		case c.Companion != nil:
			assert.Equalf(t, false, c.Result != nil && c.Result.Error != "" && c.Rules == "", "%s: the matrix allows it, and it fails", c)
		case c.Result != nil || c.Patches == "": // of patched sources the page may say that they are not compiled
			assert.Equalf(t, "yes", agreement(c), "%s: the matrix says %q, the compile %+v (%s)", c, c.Rules, c.Result, refusal(c))
		}
	}
	text, _ := render(cells)
	front, _, _ := strings.Cut(page, last)
	_, table, _ := strings.Cut(text, last)
	goldentest.Compare(t, name, front+last+table)
}

// fromPage returns all cells of the kernels of a page, with the page's results.
func fromPage(t *testing.T, m *matrix.Matrix, page string) []*cell {
	t.Helper()
	kernels, found, heading := map[string]kernel{}, map[string]*result{}, ""
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, "## ") {
			heading = strings.TrimSpace(line)
		}
		col := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		for i := range col {
			col[i] = strings.TrimSpace(col[i])
		}
		known := len(col) > 7 && slices.ContainsFunc(drivers, func(d driver) bool { return d.version == col[1] })
		switch {
		case slices.Contains(systems, col[0]):
			kernels[col[0]] = kernel{Release: col[1], Version: col[2]}
		case known && heading == "## Companions":
			found[strings.Join(col[:5], " ")] = pageResult(col[5], col[6], col[7])
		case known:
			found[strings.Join(append(col[:3:3], col[5]), " ")] = pageResult(col[3], col[6], col[7])
		}
	}
	cells := require.Value(cellsOf(m, kernels))(t)
	assert.Equalf(t, len(cells), len(found), "results on the page")
	for _, c := range cells {
		key := strings.Join([]string{c.Kernel.series(), c.Driver.version, c.Flavour, cmp.Or(c.Patches, "none")}, " ")
		if c.Companion != nil {
			key += " " + c.Companion.Name + " " + c.Companion.Version
		}
		r, ok := found[key]
		assert.Equalf(t, true, ok, "the page has %s", key)
		c.Result = r
	}
	return cells
}

// pageResult returns a result as the page has it.
func pageResult(source, outcome, detail string) *result {
	if outcome == notRun {
		return nil
	}
	return &result{Source: source, Error: strings.ReplaceAll(strings.Trim(detail, "`"), `\|`, "|"), Date: "never"}
}
