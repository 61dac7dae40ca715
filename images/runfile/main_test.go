package runfile_test

import (
	"testing"

	"go.uber.org/goleak"
)

// Every goroutine of an extraction must end with it, also after failures.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
