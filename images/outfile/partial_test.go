package outfile

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/require"
)

func TestResume(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "b.tar")
	require.NoError(t, os.WriteFile(path, []byte("old"), 0o600))
	errFull := errors.New("full")
	err := Resume(path, false, func(f *os.File) error {
		_, err := f.WriteString("new")
		assert.Errorf(t, Resume(path, true, func(*os.File) error { return nil }), "two at once")
		return errors.Join(err, errFull)
	})
	assert.ErrorIs(t, err, errFull)
	assert.ErrorContains(t, err, PartialName(path))
	assert.Equal(t, "old", string(require.Value(os.ReadFile(path))(t)))
	require.NoError(t, Resume(path, true, func(f *os.File) error {
		_, err := f.WriteAt([]byte("er"), 3)
		return err
	}))
	assert.Equal(t, "newer", string(require.Value(os.ReadFile(path))(t)))
	assert.Equal(t, 0o600, require.Value(os.Stat(path))(t).Mode().Perm())
	assert.ErrorIs(t, assert.Err(os.Stat(PartialName(path))), os.ErrNotExist)
	require.NoError(t, Resume(path, false, func(*os.File) error { return nil }))
	assert.Equal(t, "", string(require.Value(os.ReadFile(path))(t)))
}

func TestResumeRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, victim := filepath.Join(dir, "b.tar"), filepath.Join(dir, "victim")
	require.NoError(t, errors.Join(os.WriteFile(victim, []byte("x"), 0o600), os.Symlink(victim, PartialName(path))))
	assert.Errorf(t, Resume(path, false, func(*os.File) error { return nil }), "a link")
	assert.Equal(t, "x", string(require.Value(os.ReadFile(victim))(t)))
	assert.Errorf(t, Resume("/dev/null", false, func(*os.File) error { return nil }), "a device")
}
