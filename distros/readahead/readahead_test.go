package readahead

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"testing"
	"testing/iotest"

	"github.com/driver-container/driver-container/ci/testkit/require"
)

// TestReader: the bytes and the error of the source come in order, whatever the sizes.
func TestReader(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for _, size := range []int{0, 1, blockSize, blockSize + 1, 3*blocks*blockSize + 17} {
		content := make([]byte, size)
		_, _ = rand.NewChaCha8([32]byte{}).Read(content) // it never fails
		for _, want := range []error{nil, broken, io.ErrUnexpectedEOF} {
			src := iotest.HalfReader(bytes.NewReader(content))
			if want != nil {
				src = io.MultiReader(src, iotest.ErrReader(want))
			}
			r := New(src)
			got, err := io.ReadAll(r)
			if !bytes.Equal(got, content) || !errors.Is(err, want) || want == nil && err != nil {
				t.Errorf("%d bytes: %d bytes, %v; want the error %v", size, len(got), err, want)
			}
			r.Stop()
		}
	}
}

// TestStop: a reader that nobody reads to its end stops.
func TestStop(t *testing.T) {
	t.Parallel()
	r := New(rand.NewChaCha8([32]byte{}))
	require.Value(io.ReadFull(r, make([]byte, 10)))(t)
	r.Stop()
}
