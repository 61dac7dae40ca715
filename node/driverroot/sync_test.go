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
	"github.com/driver-container/driver-container/kmod/kbuild"
)

func TestSync(t *testing.T) {
	tool.AsRoot(t, "it mounts")
	r := testRoot(t)
	require.NoError(t, r.Sync(t.Context())) // there is no root
	dir := require.Value(r.Stage(t.Context()))(t)
	boot := func(set string) string { // of the marker
		root := require.Value(os.OpenRoot(dir))(t)
		defer root.Close()
		m := require.Value(readMarker(root))(t)
		if set != "" {
			m.Boot = set
			require.NoError(t, m.write(root))
		}
		return m.Boot
	}
	assert.Equalf(t, true, reused(t, r), "in the same boot")

	// The machine goes down before Sync.
	boot("another boot")
	require.NoError(t, r.Sync(t.Context()))
	assert.Equal(t, "another boot", boot(""))
	require.NoError(t, r.Mount(t.Context()))
	if ok, why := r.adoptable(); ok {
		t.Error("it can be adopted")
	} else {
		assert.Contains(t, why, "went down")
	}
	require.NoError(t, r.Unmount(t.Context()))
	assert.Equalf(t, false, reused(t, r), "in the next boot")

	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("SIGTERM")
	cancel(why)
	if err := r.Sync(ctx); err != nil && !errors.Is(err, why) { // the sync may end before the check of ctx
		t.Errorf("stopped: %v", err)
	}
	require.NoError(t, r.Sync(t.Context()))
	assert.Equalf(t, "", boot(""), "after the wait")
	assert.Equalf(t, true, reused(t, r), "after the wait")
}

// Modules that the root has from the image are linked, and the remains of an earlier attempt are not written
// to.
func TestAddModulesLinks(t *testing.T) {
	tool.AsRoot(t, "it mounts")
	r := testRoot(t)
	dir := t.TempDir()
	from := filepath.Join(dir, "nvidia.ko")
	testfile.Write(t, dir+"/nvidia.ko", "module")
	root := require.Value(r.Stage(t.Context()))(t)
	inRoot := testfile.Write(t, root+"/"+from, "module")
	st := require.Value(os.Stat(from))(t)
	require.NoError(t, os.Chtimes(inRoot, st.ModTime(), st.ModTime()))
	require.NoError(t, os.Remove(filepath.Join(root, "usr/bin/kmod")))
	require.NoError(t, os.Remove(filepath.Join(root, "usr/sbin/modprobe")))
	to := filepath.Join(root, "lib/modules", release, "updates/nvidia/nvidia.ko")
	require.NoError(t, os.MkdirAll(filepath.Dir(to), 0o755))
	require.NoError(t, os.Link(inRoot, to+".tmp")) // an attempt that was killed
	for _, sum := range []string{"1", "2"} {
		require.NoError(t, r.AddModules(t.Context(), []kbuild.File{{Path: from, SHA256: sum}}))
		var st unix.Stat_t
		require.NoError(t, unix.Stat(to, &st))
		if st.Nlink != 2 || !isSameFile(inRoot, to) {
			t.Errorf("not linked: %d names", st.Nlink)
		}
	}
	testfile.Write(t, dir+"/nvidia.ko", "signed module") // differs from the image's
	require.NoError(t, r.AddModules(t.Context(), []kbuild.File{{Path: from, SHA256: "3"}}))
	assert.Equal(t, "signed module", string(require.Value(os.ReadFile(to))(t)))
	assert.Equalf(t, "module", string(require.Value(os.ReadFile(inRoot))(t)), "the image's module is")
}
