package main

import (
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/goldentest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/images/matrix"
)

// TestPage: the matrix says of each combination in docs/compat.md what the compiler said, where that is known. With
// -update what the page has of the matrix follows the matrix.
func TestPage(t *testing.T) {
	t.Parallel()
	const name = "../../../docs/compat.md"
	kernels, results := parse(testfile.Read(t, name))
	cells := require.Value(cellsOf(require.Value(matrix.ReadFile("../../../matrix.yaml", nil, nil))(t), kernels, results))(t)
	text, differs := render(cells)
	assert.Equalf(t, false, differs, "the matrix and the compiler differ")
	if len(results) < len(cells)*9/10 {
		t.Errorf("the page has %d results of %d", len(results), len(cells))
	}
	goldentest.Compare(t, name, text)
}
