package cluster

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/ci/lab"
	"github.com/driver-container/driver-container/ci/require"
)

// tools are the programs that the cluster needs in addition to the lab's, with the Debian package of each.
var tools = []struct{ name, from string }{{"mmdebstrap", "mmdebstrap"}, {"qemu-img", "qemu-utils"}, {"cpio", "cpio"}}

// Gate skips a test unless DRIVER_E2E=1 asks for the real tier; then anything that is missing is a failure.
func Gate(t testing.TB) {
	t.Helper()
	lab.Gate(t)
	for _, tool := range tools {
		lab.Need(t, tool.name, tool.from)
	}
}

// cacheDir is the folder of guests and their states: DRIVER_CLUSTER_DIR, or a folder in the user's cache.
func cacheDir(t testing.TB) string {
	t.Helper()
	dir := os.Getenv("DRIVER_CLUSTER_DIR")
	if dir == "" {
		base := require.Value(os.UserCacheDir())(t)
		dir = filepath.Join(base, "driver-build", "cluster")
	}
	require.NoError(t, os.MkdirAll(dir, 0o755))
	return dir
}

// cached returns a folder of the cache. If it is missing, build makes it under another name. Other test
// processes wait meanwhile. Of the folders with the same prefix, cached keeps the keepStates that were used
// last.
func cached(t testing.TB, prefix, key string, build func(dir string)) string {
	t.Helper()
	dir := filepath.Join(cacheDir(t), prefix+"-"+key)
	lock := require.Value(os.OpenFile(filepath.Join(cacheDir(t), prefix+".lock"), os.O_CREATE|os.O_RDWR, 0o644))(t)
	defer lock.Close()
	require.NoError(t, unix.Flock(int(lock.Fd()), unix.LOCK_EX))
	if _, err := os.Stat(dir); err != nil {
		partial := filepath.Join(cacheDir(t), "partial-"+prefix)
		require.NoError(t, os.RemoveAll(partial))
		build(partial)
		require.NoError(t, os.Rename(partial, dir))
	}
	now := time.Now()
	require.NoError(t, os.Chtimes(dir, now, now))
	prune(t, prefix, keepStates)
	return dir
}

func prune(t testing.TB, prefix string, keep int) {
	t.Helper()
	dirs := require.Value(filepath.Glob(filepath.Join(cacheDir(t), prefix+"-*")))(t)
	for ; len(dirs) > keep; keep++ {
		oldest, at := "", time.Now()
		for _, dir := range dirs {
			if st, err := os.Stat(dir); err == nil && st.ModTime().Before(at) {
				oldest, at = dir, st.ModTime()
			}
		}
		if oldest == "" {
			return
		}
		require.NoError(t, os.RemoveAll(oldest))
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// tool runs a program of this machine and returns its standard output; the test fails if the program fails.
func tool(t testing.TB, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			t.Fatalf("%s: %v\n%s%s", strings.Join(args, " "), err, out, exit.Stderr)
		}
		t.Fatalf("%s: %v", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out))
}

// sourceDir returns this package's folder.
func sourceDir(t testing.TB) string { return filepath.Join(lab.Repository(t), "ci/cluster") }
