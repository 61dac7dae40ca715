package runfile_test

import (
	"testing"

	"go.uber.org/goleak"
)

// Every goroutine of an extraction must end with it, also after failures.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
