package outfile

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/require"
)

// A link stays a link, and a change that another program made is not lost.
func TestEdit(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	require.NoError(t, os.WriteFile(file, []byte("old"), 0o640))
	require.NoError(t, os.Symlink("file", link))
	require.NoError(t, Edit(link, []byte("old"), []byte("new")))
	info, err := os.Lstat(link)
	if err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("%v, %v", info, err)
	}
	if info, err = os.Stat(file); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("%v, %v", info, err)
	}
	assert.ErrorContainsf(t, Edit(file, []byte("old"), []byte("lost")), "changed meanwhile", "a change of the meantime")
	assert.Equal(t, "new", string(require.Value(os.ReadFile(link))(t)))
	if all, err := os.ReadDir(dir); err != nil || len(all) != 2 {
		t.Errorf("%v, %v", all, err)
	}
	assert.NoError(t, CheckEdit(link))
	for path, want := range map[string]string{"/dev/null": "no regular file", dir: "no regular file", filepath.Join(dir, "none", "x"): "create it first"} {
		assert.ErrorContainsf(t, CheckEdit(path), want, "%s", path)
	}
}
