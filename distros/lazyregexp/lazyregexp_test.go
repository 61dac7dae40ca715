package lazyregexp

import (
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
)

// The expression is compiled once, when it is first used.
func TestNew(t *testing.T) {
	t.Parallel()
	digits := New(`^[0-9]{1,3}$`)
	assert.Equalf(t, true, digits().MatchString("535"), "match")
	assert.Equalf(t, false, digits().MatchString("5350"), "match")
	first := digits()
	assert.Equalf(t, true, first == digits(), "the same expression")
	wrong := New(`(`)
	defer func() {
		if recover() == nil {
			t.Error("a wrong expression does not panic when it is used")
		}
	}()
	wrong()
}
