package node

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What an instance that was killed while it wrote left is removed; files of others stay.
func TestLeftovers(t *testing.T) {
	t.Parallel()
	m := markers{run: t.TempDir()}
	if err := m.notReady(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{".driver-status.json.tmp-123", "validations/..driver-daemons-status.tmp-9", "validations/.other.tmp-1"} {
		if err := os.WriteFile(filepath.Join(m.run, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.leftovers(); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, pattern := range []string{"*", "validations/*"} {
		found, err := filepath.Glob(filepath.Join(m.run, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range found {
			name, err := filepath.Rel(m.run, f)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, name)
		}
	}
	if diff := cmp.Diff([]string{"validations", "validations/.driver-daemons-status", "validations/.other.tmp-1"}, got); diff != "" {
		t.Error(diff)
	}
}
