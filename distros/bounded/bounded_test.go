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

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/require"
	"github.com/driver-container/driver-container/ci/testfile"
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
		if tooLarge, ok := errors.AsType[*TooLargeError](err); !ok || tooLarge.Limit != 3 {
			t.Errorf("%v", err)
		}
		assert.ErrorContains(t, err, "f: larger than 3 bytes")
	}
	_, err := File(file+"2", 1)
	assert.ErrorIs(t, err, fs.ErrNotExist)
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

// TestRegular: a pipe without a writer is refused at once.
func TestRegular(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, pipe := testfile.Write(t, filepath.Join(dir, "f"), "four"), filepath.Join(dir, "pipe")
	require.NoError(t, unix.Mkfifo(pipe, 0o600))
	assert.Equal(t, "four", string(require.Value(Regular(file, 4))(t)))
	for path, limit := range map[string]int64{file: 3, pipe: 4, dir: 1 << 20} {
		assert.ErrorContains(t, assert.Err(Regular(path, limit)), "is no file of at most")
	}
}
