package driverroot

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/ci/testkit/tool"
)

// Somebody writes to a layer at the same time: a file that differs from what the overlay showed is not
// linked.
func TestLinkOfWhatChanges(t *testing.T) {
	tool.AsRoot(t, "it mounts")
	dir := t.TempDir()
	lower, dst := open(t, dir), open(t, t.TempDir())
	var shown unix.Stat_t
	for name, change := range map[string]func(file string){
		"written": func(file string) { // with the same size and time
			st := require.Value(os.Stat(file))(t)
			require.NoError(t, os.WriteFile(file, []byte("changed!"), 0o644))
			require.NoError(t, os.Chtimes(file, st.ModTime(), st.ModTime()))
		},
		"grown": func(file string) { require.NoError(t, os.Truncate(file, 1<<20)) },
		"replaced": func(file string) {
			testfile.Write(t, dir+"/new", "original")
			require.NoError(t, os.Rename(dir+"/new", file))
		},
		"mode": func(file string) { require.NoError(t, os.Chmod(file, 0o600)) },
		"a link": func(file string) {
			require.NoError(t, os.Remove(file))
			require.NoError(t, os.Symlink("/etc/passwd", file))
		},
		"gone": func(file string) { require.NoError(t, os.Remove(file)) },
	} {
		testfile.Write(t, dir+"/"+name, "original")
		require.NoError(t, unix.Stat(filepath.Join(dir, name), &shown))
		if find([]*os.File{lower}, name, &shown) == nil {
			t.Fatalf("%s: not found as it is", name)
		}
		time.Sleep(40 * time.Millisecond) // times of file systems have a limited resolution
		change(filepath.Join(dir, name))
		if find([]*os.File{lower}, name, &shown) != nil {
			t.Errorf("%s: found", name)
		}
		// Changed after it was found. A change of data with the same size and time cannot be detected; it could not
		// be detected a moment later either.
		if name != "written" && linkFile(lower, name, dst, name, &shown) {
			t.Errorf("%s: linked", name)
		}
		if _, err := os.Lstat(filepath.Join(dst.Name(), name)); name != "written" && err == nil {
			t.Errorf("%s: a name is left", name)
		}
	}
}

func open(t *testing.T, dir string) *os.File {
	t.Helper()
	f := require.Value(os.Open(dir))(t)
	t.Cleanup(func() { f.Close() })
	return f
}
