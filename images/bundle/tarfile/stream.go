package tarfile

import (
	"errors"
	"fmt"
	"io"

	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/images/bundle"
)

// Stream reads an archive from a pipe, one member after the other. The first thing that is wrong ends it.
type Stream struct {
	from io.Reader
	rest int64 // of the member, with its padding
	pad  int64
	n    int
}

// NewStream returns the members of what r gives.
func NewStream(r io.Reader) *Stream { return &Stream{from: r} }

// Next goes to the next member, whose content must have been read. The error is io.EOF at the sound end of
// the archive, and *FormatError when the archive is not that of a bundle.
func (s *Stream) Next() (Member, error) {
	if s.rest > 0 {
		return Member{}, fmt.Errorf("%d bytes of a member were not read", s.rest)
	}
	if err := s.zeros(s.pad); err != nil {
		return Member{}, err
	}
	s.pad = 0
	var h [BlockSize]byte
	if _, err := io.ReadFull(s.from, h[:]); err != nil {
		return Member{}, cutOff(err)
	}
	name, size, err := parse(h[:])
	switch {
	case errors.Is(err, errEnd):
		if err := s.zeros(TrailerSize - BlockSize); err != nil {
			return Member{}, err
		}
		if n, _ := io.CopyN(io.Discard, s.from, 1); n > 0 {
			return Member{}, &FormatError{"something follows the end of the archive"}
		}
		return Member{}, io.EOF
	case err != nil:
		return Member{}, &FormatError{err.Error()}
	}
	if s.n++; s.n > maxMembers {
		return Member{}, &FormatError{fmt.Sprintf("it has more than %d members", maxMembers)}
	}
	s.rest, s.pad = size, Padding(size)
	return Member{Name: name, Size: size}, nil
}

// Read reads the content of the member.
func (s *Stream) Read(p []byte) (int, error) {
	if s.rest == 0 {
		return 0, io.EOF
	}
	n, err := s.from.Read(p[:min(int64(len(p)), s.rest)])
	s.rest -= int64(n)
	if err != nil && s.rest > 0 {
		return n, cutOff(err)
	}
	return n, nil
}

func (s *Stream) zeros(n int64) error {
	var b [BlockSize]byte
	if _, err := io.ReadFull(s.from, b[:n]); err != nil {
		return cutOff(err)
	}
	if b != [BlockSize]byte{} {
		return &FormatError{"bytes between members are not zero"}
	}
	return nil
}

func cutOff(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return &FormatError{"it is cut off"}
	}
	return err
}

// FormatError says that an archive is not that of a bundle.
type FormatError struct{ Message string }

func (e *FormatError) Error() string { return bundle.ErrUnsound.Error() + ": " + e.Message }

// FailureKind says what the command makes of it.
func (*FormatError) FailureKind() failure.Kind { return failure.Content }

// Is makes it a bundle.ErrUnsound.
func (e *FormatError) Is(target error) bool { return target == bundle.ErrUnsound }
