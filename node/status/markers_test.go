package status

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestLeftovers checks that the files of an instance which was killed while it wrote are removed, and that
// files of others stay.
func TestLeftovers(t *testing.T) {
	t.Parallel()
	m := Markers{Run: t.TempDir()}
	if err := m.NotReady(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{".tmp-driver-status.json123", "validations/.tmp-.driver-daemons-status9", "validations/.tmp-other1"} {
		if err := os.WriteFile(filepath.Join(m.Run, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.RemoveUnfinished(); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, pattern := range []string{"*", "validations/*"} {
		found, err := filepath.Glob(filepath.Join(m.Run, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range found {
			name, err := filepath.Rel(m.Run, f)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, name)
		}
	}
	if diff := cmp.Diff([]string{"validations", "validations/.driver-daemons-status", "validations/.tmp-other1"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestMarkers(t *testing.T) {
	t.Parallel()
	run := t.TempDir()
	m := Markers{Run: run, Digest: "abc"}
	read := func(name string) string {
		data, err := os.ReadFile(filepath.Join(run, name))
		if err != nil {
			return "-"
		}
		return string(data)
	}
	see := func(when, daemonsText, startup, digest string) {
		t.Helper()
		if got := []string{read(DaemonsMarker), read(startupMarker), read(digestFile)}; !cmp.Equal(got, []string{daemonsText, startup, digest}) {
			t.Errorf("%s: %q", when, got)
		}
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
	}
	must(m.NotReady())
	see("starting", "NotReady\n", "-", "-")
	must(m.Ready())
	see("ready", "Ready\n", "-", "abc\n")
	const flags = "GDRCOPY_ENABLED: false\nGDS_ENABLED: true\nGPU_DIRECT_RDMA_ENABLED: false\n"
	for range 2 {
		must(MarkStarted(run, func(name string) string {
			return map[string]string{"GDS_ENABLED": "true", "GDRCOPY_ENABLED": "yes"}[name]
		}))
	}
	see("probed", "Ready\n", flags, "abc\n")
	must(Markers{Run: run}.Ready())
	see("without a digest", "Ready\n", flags, "-")
	must(m.NotReady())
	see("degraded", "NotReady\n", "-", "-")
	must(m.Ready())
	must(m.Remove())
	must(m.Remove())
	see("gone", "-", "-", "-")
	if err := MarkStarted("/proc/nowhere", os.Getenv); err == nil {
		t.Error("no folder, no error")
	}
	if err := (Markers{Run: "/proc/nowhere"}).NotReady(); err == nil {
		t.Error("no folder, no error")
	}
}
