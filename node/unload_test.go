package node

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/node/status"
)

func TestCheckFiles(t *testing.T) {
	t.Parallel()
	set, err := (&world{dir: t.TempDir()}).files("cache", v535)
	if err != nil {
		t.Fatal(err)
	}
	m := []status.Module{{Name: "nvidia", File: set.Modules[0].Path, SHA256: set.Modules[0].SHA256}}
	if err := checkFiles(m); err != nil {
		t.Error(err)
	}
	m[0].SHA256 = "00"
	if err := checkFiles(m); err == nil || !strings.Contains(err.Error(), "it had 00 when it was verified") {
		t.Errorf("%v", err)
	}
	m[0].File = "/nonexistent"
	if err := checkFiles(m); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
}
