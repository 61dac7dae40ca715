package selinux

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/ci/testkit/tool"
)

// with is /proc/filesystems of a kernel with SELinux.
func with(t *testing.T) string {
	t.Helper()
	return testfile.Write(t, filepath.Join(t.TempDir(), "filesystems"), "nodev\tsysfs\nnodev\tselinuxfs\n\text4\n")
}

func set(t *testing.T, path, value string) {
	t.Helper()
	require.NoError(t, unix.Lsetxattr(path, attribute, []byte(value), 0))
}

func get(t *testing.T, path string) string {
	t.Helper()
	text := make([]byte, maxLabel)
	n := require.Value(unix.Lgetxattr(path, attribute, text))(t)
	return string(text[:n])
}

// TestShare: what has the folder's type gets Type, whatever its level; links to an image's files keep theirs, and so
// does what is mounted in the folder.
func TestShare(t *testing.T) {
	t.Parallel()
	tool.AsRoot(t, "to set labels")
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	testfile.Tree(t, dir, map[string]string{"roots/a/libcuda.so": "x", "roots/a/shared": "x", "roots/a/link": "-> shared", "mounted/": ""})
	const own, image = "system_u:object_r:var_lib_t:s0", "system_u:object_r:container_ro_file_t:s0"
	for _, name := range []string{".", "roots", "roots/a", "roots/a/link", "mounted"} {
		set(t, at(name), own)
	}
	set(t, at("roots/a/libcuda.so"), "unconfined_u:object_r:var_lib_t:s0-s0:c0.c1023\x00")
	set(t, at("roots/a/shared"), image)
	for range 2 { // the second time, nothing is left to do
		require.NoError(t, share(dir, with(t)))
		for _, name := range []string{".", "roots", "roots/a", "roots/a/link", "mounted"} {
			assert.Equalf(t, "system_u:object_r:container_file_t:s0", get(t, at(name)), "%s", name)
		}
		assert.Equal(t, "unconfined_u:object_r:container_file_t:s0-s0:c0.c1023", get(t, at("roots/a/libcuda.so")))
		assert.Equal(t, image, get(t, at("roots/a/shared")))
	}
}

// TestShareNothing: without SELinux no label is touched; a label that cannot be read is an error.
func TestShareNothing(t *testing.T) {
	t.Parallel()
	tool.AsRoot(t, "to set labels")
	dir := t.TempDir()
	assert.ErrorContains(t, share(dir, with(t)), "read the label of "+dir)
	set(t, dir, "nonsense")
	assert.ErrorContains(t, share(dir, with(t)), "has no type")
	set(t, dir, "u:r:var_lib_t")
	without := testfile.Write(t, filepath.Join(t.TempDir(), "filesystems"), "nodev\tsysfs\n")
	require.NoError(t, share(dir, without))
	assert.Equal(t, "u:r:var_lib_t", get(t, dir))
	require.NoError(t, share(dir, with(t)))
	assert.Equal(t, "u:r:container_file_t", get(t, dir))
	assert.ErrorIs(t, share(filepath.Join(dir, "none"), with(t)), os.ErrNotExist)
}
