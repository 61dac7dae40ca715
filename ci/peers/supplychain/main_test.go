package supplychain

import (
	"os"
	"testing"
)

func TestMain(m *testing.M) { os.Exit(Offline(m)) }

// judged skips a test where the real tier does not run.
func judged(t *testing.T) {
	t.Helper()
	if os.Getenv("DRIVER_E2E") == "" {
		t.Skip("programs that are not ours run with DRIVER_E2E=1 (make e2e): it needs root, and ci/e2e/setup")
	}
}
