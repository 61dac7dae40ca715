package gpus

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/images/matrix"
)

// TestComponents names every GPU of the list that NVLink switches can join: a new one is to be looked at.
func TestComponents(t *testing.T) {
	t.Parallel()
	var switched, nvlink5 []string
	for _, g := range All() {
		switch names := g.Components(); {
		case slices.Contains(names, matrix.NVLSM):
			nvlink5 = append(nvlink5, fmt.Sprintf("%04x", g.Device))
		case names != nil:
			switched = append(switched, fmt.Sprintf("%04x", g.Device))
		}
	}
	assert.Equal(t, "1db8 20b0 20b2 20b3 20bd 20f3 230c 230e 2324 2328 2329 232c 2330 2335 2336 2337 2338 2339 233d", strings.Join(switched, " "))
	assert.Equal(t, "2901 2909 290a 2920 29bc 3182", strings.Join(nvlink5, " "))
}
