package reading

import (
	"context"
	"errors"
	"fmt"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/images/bundle"
	"github.com/driver-container/driver-container/images/bundle/tarfile"
	"github.com/driver-container/driver-container/images/oci"
)

// Stream is a bundle that is read once from a pipe.
type Stream struct {
	*Bundle
	tar  *tarfile.Stream
	rest []bundle.Blob
}

// Open reads everything up to the first blob, and verifies it. Errors are of class bundle.ErrUnsound, except
// those of the pipe.
func Open(ctx context.Context, r io.Reader, o Options) (*Stream, error) {
	s := &Stream{tar: tarfile.NewStream(r)}
	b, err := load(s.get)
	if err != nil {
		return nil, fmt.Errorf("read the bundle: %w", err)
	}
	s.Bundle = b
	c := check{Options: o, bundle: b}
	if c.signature(ctx); len(c.findings) > 0 {
		return nil, fmt.Errorf("read the bundle: %w", bundle.Unsound(c.findings))
	}
	s.rest = b.List.Present()
	return s, nil
}

func (s *Stream) get(name string) ([]byte, error) {
	m, err := s.next()
	if err != nil {
		return nil, err
	}
	if m.Name != name || m.Size > bundle.MaxDocument {
		return nil, unsound("%s of %d bytes is where %s must be", m.Name, m.Size, name)
	}
	return io.ReadAll(s.tar)
}

func (s *Stream) next() (tarfile.Member, error) {
	m, err := s.tar.Next()
	if errors.Is(err, io.EOF) && len(s.rest) > 0 {
		return m, unsound("it ends without %d of its blobs", len(s.rest))
	}
	return m, err
}

// Next returns the next blob, which can be opened once, and must be before the next call. The error is io.EOF
// when all of it has been read and is sound.
func (s *Stream) Next() (oci.Blob, error) {
	m, err := s.next()
	if err != nil {
		return oci.Blob{}, err
	}
	hex, _ := tarfile.BlobHex(m.Name)
	if len(s.rest) == 0 || s.rest[0].Digest.Hex != hex || s.rest[0].Size != m.Size {
		return oci.Blob{}, unsound("%s of %d bytes is not what comes here by the list", m.Name, m.Size)
	}
	s.rest = s.rest[1:]
	return oci.Blob{Desc: v1.Descriptor{Digest: v1.Hash{Algorithm: "sha256", Hex: hex}, Size: m.Size},
		Open: func() (io.ReadCloser, error) { return io.NopCloser(s.tar), nil }}, nil
}
