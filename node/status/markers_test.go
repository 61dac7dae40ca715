package status

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
)

// TestLeftovers checks that the files of an instance which was killed while it wrote are removed, and that
// files of others stay.
func TestLeftovers(t *testing.T) {
	t.Parallel()
	m := Markers{Run: t.TempDir()}
	require.NoError(t, m.NotReady())
	for _, name := range []string{".tmp-driver-status.json123", "validations/.tmp-.driver-daemons-status9", "validations/.tmp-other1"} {
		require.NoError(t, os.WriteFile(filepath.Join(m.Run, name), nil, 0o600))
	}
	require.NoError(t, m.RemoveUnfinished())
	var got []string
	for _, pattern := range []string{"*", "validations/*"} {
		found := require.Value(filepath.Glob(filepath.Join(m.Run, pattern)))(t)
		for _, f := range found {
			name := require.Value(filepath.Rel(m.Run, f))(t)
			got = append(got, name)
		}
	}
	assert.Same(t, []string{"validations", "validations/.driver-daemons-status", "validations/.tmp-other1"}, got)
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
		assert.Samef(t, []string{daemonsText, startup, digest}, []string{read(DaemonsMarker), read(startupMarker), read(digestFile)}, "%s", when)
	}
	testfile.Write(t, filepath.Join(run, "validations"), "")
	assert.ErrorContains(t, m.NotReady(), run+"/validations: not a directory; remove that file on the node")
	assert.NoError(t, os.Remove(filepath.Join(run, "validations")))
	assert.NoError(t, m.NotReady())
	see("starting", "NotReady\n", "-", "-")
	assert.NoError(t, m.Ready())
	see("ready", "Ready\n", "-", "abc\n")
	const flags = "GDRCOPY_ENABLED: false\nGDS_ENABLED: true\nGPU_DIRECT_RDMA_ENABLED: false\n"
	for range 2 {
		assert.NoError(t, MarkStarted(run, func(name string) string {
			return map[string]string{"GDS_ENABLED": "true", "GDRCOPY_ENABLED": "yes"}[name]
		}))
	}
	see("probed", "Ready\n", flags, "abc\n")
	assert.NoError(t, Markers{Run: run}.Ready())
	see("without a digest", "Ready\n", flags, "-")
	assert.NoError(t, m.NotReady())
	see("degraded", "NotReady\n", "-", "-")
	assert.NoError(t, m.Ready())
	assert.NoError(t, m.Remove())
	assert.NoError(t, m.Remove())
	see("gone", "-", "-", "-")
	assert.Errorf(t, MarkStarted("/proc/nowhere", os.Getenv), "no folder")
	assert.Errorf(t, (Markers{Run: "/proc/nowhere"}).NotReady(), "no folder")
}
