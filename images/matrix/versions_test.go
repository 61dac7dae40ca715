package matrix

import (
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
)

func TestCompareVersions(t *testing.T) {
	t.Parallel()
	rising := []string{"R390", "418.87.00", "418.87.01", "418.113", "418.226.00", "R535", "535.54.03", "535.104.05", "1000.1"}
	for i, a := range rising {
		for j, b := range rising {
			assert.Equalf(t, min(1, max(-1, i-j)), CompareVersions(a, b), "%s and %s", a, b)
		}
	}
	assert.Equal(t, 0, CompareVersions("418.87.1", "418.87.01"))
	assert.Equal(t, 0, CompareVersions("418.113", "418.113.00"))
}
