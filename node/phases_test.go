package node

import (
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/node/status"
)

// TestPhases: a start has the phases by which others know how far it is, and only those after `replace`
// change the driver.
func TestPhases(t *testing.T) {
	t.Parallel()
	var names []string
	for _, p := range phases {
		names = append(names, p.name)
	}
	assert.Same(t, status.Phases(), names)
	assert.Same(t, []bool{false, false, true, true, false}, []bool{
		status.Replaces("lock"), status.Replaces("stage"), status.Replaces("replace"), status.Replaces("companions"), status.Replaces(""),
	})
}
