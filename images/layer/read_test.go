package layer

import (
	"io"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/images/progress"
	"github.com/driver-container/driver-container/images/rootfs"
)

// zeros is a layer of one byte that never ends when it is unpacked.
type zeros struct{ v1.Layer }

func (zeros) Size() (int64, error)                 { return 1, nil }
func (zeros) DiffID() (v1.Hash, error)             { return v1.Hash{}, nil }
func (zeros) Uncompressed() (io.ReadCloser, error) { return io.NopCloser(zeros{}), nil }
func (zeros) Read(p []byte) (int, error)           { clear(p); return len(p), nil }

func TestReadIsBounded(t *testing.T) {
	t.Parallel()
	err := read(t.Context(), zeros{}, progress.Quiet(), "", func(io.Reader) error { return nil })
	assert.ErrorIs(t, err, rootfs.ErrTooLarge)
}
