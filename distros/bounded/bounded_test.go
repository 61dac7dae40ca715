package bounded

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
)

func TestLimit(t *testing.T) {
	t.Parallel()
	file := testfile.Write(t, filepath.Join(t.TempDir(), "f"), "four")
	for _, read := range []func(limit int64) ([]byte, error){
		func(limit int64) ([]byte, error) { return File(file, limit) },
		func(limit int64) ([]byte, error) { return FSFile(os.DirFS(filepath.Dir(file)), "f", limit) },
	} {
		assert.Equalf(t, "four", string(require.Value(read(4))(t)), "at the limit")
		_, err := read(3)
		if !errors.Is(err, ErrTooLarge) {
			t.Errorf("%v", err)
		}
		assert.ErrorContains(t, err, "f: larger than 3 bytes")
	}
	_, err := File(file+"2", 1)
	assert.ErrorIs(t, err, fs.ErrNotExist)
}

// TestStream: a stream of the kernel ends the read, and what the kernel writes at once is read.
func TestStream(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/proc/self/mountinfo", "/proc/sys/kernel/osrelease", "/proc/mounts", "/sys/kernel/mm/transparent_hugepage/enabled"} {
		data, err := File(path, 1<<20)
		if !errors.Is(err, fs.ErrNotExist) {
			assert.Equalf(t, true, err == nil && len(data) > 0, "%s: %v", path, err)
		}
	}
	_, err := File("/proc/kmsg", 1<<40)
	if errors.Is(err, fs.ErrPermission) {
		t.Skip("only root reads /proc/kmsg")
	}
	assert.ErrorIs(t, err, ErrNotRegular)
	assert.ErrorContains(t, err, "/proc/kmsg: not a regular file but a stream of the kernel")
}

// TestContains: the text is found across the borders of what is read at once, and content beyond the limit is
// an error.
func TestContains(t *testing.T) {
	t.Parallel()
	const text = "535.261.03"
	for _, c := range []struct {
		before, limit int
		want          bool
		err           string
	}{
		{0, 100, true, ""}, {1<<20 - 4, 4 << 20, true, ""}, {3<<20 - 9, 4 << 20, true, ""}, {200, 100, false, "larger than 100 bytes"},
	} {
		content := strings.Repeat("x", c.before) + text
		got, err := Contains(iotest.HalfReader(strings.NewReader(content)), text, int64(c.limit))
		assert.Equalf(t, c.want, got, "%d bytes before", c.before)
		assert.Equalf(t, c.err == "", err == nil, "%d bytes before: %v", c.before, err)
	}
	got, err := Contains(strings.NewReader("535.261.0"), text, 9)
	assert.Equalf(t, false, got || err != nil, "not there: %v", err)
}

// TestRegular: what is no regular file is refused at once, also a pipe without a writer and a device without an end.
func TestRegular(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, unix.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	require.NoError(t, os.Symlink("/dev/zero", filepath.Join(dir, "device")))
	for name, kind := range map[string]string{"pipe": "a pipe", ".": "a folder", "device": "a device"} {
		path := filepath.Join(dir, name)
		err := assert.Err(File(path, 1<<40))
		assert.ErrorIs(t, err, ErrNotRegular)
		assert.ErrorContains(t, err, "open "+path+": not a regular file but "+kind)
		assert.ErrorIs(t, assert.Err(FSFile(os.DirFS(dir), name, 1<<40)), ErrNotRegular)
		assert.Equal(t, "", string(Head(path, 1)))
	}
}
