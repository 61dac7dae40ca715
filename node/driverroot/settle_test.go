package driverroot

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/ci/testkit/tool"
)

func TestSettle(t *testing.T) {
	tool.AsRoot(t, "it mounts")
	r := testRoot(t)
	require.NoError(t, r.Settle(t.Context())) // there is no root
	s := require.Value(r.Stage(t.Context()))(t)
	boot := func(set string) string { // of the marker
		root := require.Value(os.OpenRoot(s.Dir))(t)
		defer root.Close()
		m := require.Value(readMarker(root))(t)
		if set != "" {
			m.Boot = set
			require.NoError(t, m.write(root))
		}
		return m.Boot
	}
	if again, err := r.Stage(t.Context()); err != nil || !again.Reused {
		t.Errorf("in the same boot: %+v, %v", again, err)
	}

	// The machine goes down before Settle.
	boot("another boot")
	require.NoError(t, r.Settle(t.Context()))
	assert.Equal(t, "another boot", boot(""))
	require.NoError(t, s.Mount(t.Context()))
	if ok, why := r.Adoptable(); ok {
		t.Error("it can be adopted")
	} else {
		assert.Contains(t, why, "went down")
	}
	require.Value(r.Unmount(t.Context()))(t)
	if again, err := r.Stage(t.Context()); err != nil || again.Reused {
		t.Errorf("in the next boot: %+v, %v", again, err)
	}

	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("SIGTERM")
	cancel(why)
	if err := r.Settle(ctx); err != nil && !errors.Is(err, why) { // the sync may end before the check of ctx
		t.Errorf("stopped: %v", err)
	}
	require.NoError(t, r.Settle(t.Context()))
	assert.Equalf(t, "", boot(""), "after the wait")
	if again, err := r.Stage(t.Context()); err != nil || !again.Reused {
		t.Errorf("after the wait: %+v, %v", again, err)
	}
}

// Modules that the root has from the image are linked, and the remains of an earlier attempt are not written
// to.
func TestAddModulesLinks(t *testing.T) {
	tool.AsRoot(t, "it mounts")
	r := testRoot(t)
	dir := t.TempDir()
	from := filepath.Join(dir, "nvidia.ko")
	testfile.Write(t, dir+"/nvidia.ko", "module")
	s := require.Value(r.Stage(t.Context()))(t)
	inRoot := filepath.Join(s.Dir, from)
	testfile.Write(t, s.Dir+"/"+from, "module")
	st := require.Value(os.Stat(from))(t)
	require.NoError(t, os.Chtimes(inRoot, st.ModTime(), st.ModTime()))
	require.NoError(t, os.Remove(filepath.Join(s.Dir, "usr/bin/kmod")))
	require.NoError(t, os.Remove(filepath.Join(s.Dir, "usr/sbin/modprobe")))
	const release = "6.1.0-1-amd64"
	to := filepath.Join(s.Dir, "lib/modules", release, "updates/nvidia/nvidia.ko")
	require.NoError(t, os.MkdirAll(filepath.Dir(to), 0o755))
	require.NoError(t, os.Link(inRoot, to+".tmp")) // an attempt that was killed
	for _, sum := range []string{"1", "2"} {
		require.NoError(t, s.AddModules(t.Context(), release, []Module{{Path: from, SHA256: sum}}))
		var st unix.Stat_t
		require.NoError(t, unix.Stat(to, &st))
		if st.Nlink != 2 || !isSameFile(inRoot, to) {
			t.Errorf("not linked: %d names", st.Nlink)
		}
	}
	testfile.Write(t, dir+"/nvidia.ko", "signed module") // differs from the image's
	require.NoError(t, s.AddModules(t.Context(), release, []Module{{Path: from, SHA256: "3"}}))
	assert.Equal(t, "signed module", string(require.Value(os.ReadFile(to))(t)))
	assert.Equalf(t, "module", string(require.Value(os.ReadFile(inRoot))(t)), "the image's module is")
}
