package runfile_test

import (
	"flag"
	"os"
	"testing"

	"go.uber.org/goleak"
)

var update = flag.Bool("update", false, "write the golden files instead of comparing with them")

// Every goroutine of an extraction must end with it, also after failures.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func golden(t *testing.T, name, got string) {
	t.Helper()
	if *update {
		must(t, os.WriteFile(name, []byte(got), 0o644)) //nolint:gosec // a source file
		return
	}
	want, err := os.ReadFile(name)
	must(t, err)
	if string(want) != got {
		t.Errorf("%s differs (run with -update and look at the difference):\n%s", name, got)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
