package layer

import (
	"io"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/images/rootfs"
)

// zeros is a layer of one byte that never ends when it is unpacked.
type zeros struct{ v1.Layer }

func (zeros) Size() (int64, error)                 { return 1, nil }
func (zeros) Uncompressed() (io.ReadCloser, error) { return io.NopCloser(zeros{}), nil }
func (zeros) Read(p []byte) (int, error)           { clear(p); return len(p), nil }

func TestOutlineIsBounded(t *testing.T) {
	t.Parallel()
	assert.ErrorIs(t, writeOutline(t.Context(), zeros{}, io.Discard), rootfs.ErrTooLarge)
}
