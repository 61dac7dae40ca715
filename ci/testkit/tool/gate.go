package tool

import (
	"os"
	"os/exec"
	"testing"
)

// Real skips a test, and says why it is not a fast one, unless DRIVER_E2E=1 asks for the real tier.
func Real(t testing.TB, why string) {
	t.Helper()
	if os.Getenv("DRIVER_E2E") != "1" {
		t.Skip(why + ": set DRIVER_E2E=1 (make e2e)")
	}
}

// AsRoot skips a test, and says why, unless it runs as root.
func AsRoot(t testing.TB, why string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can run this test: " + why)
	}
}

// Program fails a test of the real tier if a program is missing, and names its Debian package.
func Program(t testing.TB, program, from string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		t.Fatalf("%s is missing: ci/e2e/setup installs Debian's package %s", program, from)
	}
}
