package releases

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/lint/reference"
)

// TestReference: the page has the table, the newest release first.
func TestReference(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	text.WriteString("| CUDA | floor | native from |\n|---|---|---|\n")
	for _, r := range slices.Backward(CUDAReleases()) {
		fmt.Fprintf(&text, "| %s | %s | %s |\n", r.Version, r.Floor, r.Native)
	}
	reference.Page(t, "../../docs/cuda.md", "images/releases", map[string]string{"cuda": text.String()})
}
