package bounds

import (
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// zeros is a layer of size bytes that unpacks to zeros without end.
type zeros struct {
	v1.Layer
	size int64
}

func (zeros) DiffID() (v1.Hash, error)               { return v1.Hash{}, nil }
func (z zeros) Size() (int64, error)                 { return z.size, nil }
func (z zeros) Uncompressed() (io.ReadCloser, error) { return io.NopCloser(endless{}), nil }
