package bounded

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

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
