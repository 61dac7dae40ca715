package compression

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/repotest"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

// TestReader: the first bytes tell the compression, damage is damage, and an error of the source stays what it is.
func TestReader(t *testing.T) {
	t.Parallel()
	content := []byte(strings.Repeat("content\n", 1000))
	broken := errors.New("broken")
	for ending, kind := range map[string]string{"": "", ".gz": Gzip, ".xz": XZ, ".zst": Zstd} {
		stream := repotest.Compress(t, ending, content)
		read := func(r io.Reader) ([]byte, error) {
			in := bufio.NewReader(r)
			assert.Equal(t, kind, require.Value(Detect(in))(t))
			z, err := NewReader(in, kind)
			if err != nil {
				return nil, err
			}
			defer z.Close()
			return io.ReadAll(z)
		}
		assert.Equal(t, string(content), string(require.Value(read(bytes.NewReader(stream)))(t)))
		half := bytes.NewReader(stream[:len(stream)/2])
		if kind != "" {
			assert.ErrorIsf(t, assert.Err(read(half)), ErrDamaged, "%s", kind)
		}
		half.Reset(stream[:len(stream)/2])
		assert.ErrorIsf(t, assert.Err(read(io.MultiReader(half, iotest.ErrReader(broken)))), broken, "%s", kind)
	}
	assert.ErrorContains(t, assert.Err(NewReader(nil, "lzma")), "not supported")
}
