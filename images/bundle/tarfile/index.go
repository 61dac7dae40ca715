package tarfile

import (
	"errors"
	"fmt"
	"io"
)

// maxMembers bounds the members of an archive: those of the list, and a few of the bundle itself.
const maxMembers = 100_100

// Member is one member of an archive. Offset is where its content begins.
type Member struct {
	Name         string
	Offset, Size int64
}

// Index finds the members of an archive of size bytes, in their order, and reads no content. fault is called
// with everything that is wrong with the archive itself. What follows a header without a size that can be
// right is not read.
func Index(r io.ReaderAt, size int64, fault func(member, message string)) ([]Member, error) {
	var all []Member
	var h [BlockSize]byte
	seen := map[string]bool{}
	for at, n := int64(0), 0; ; n++ {
		if n > maxMembers {
			fault("", fmt.Sprintf("it has more than %d members", maxMembers))
			return all, nil
		}
		if size-at < BlockSize {
			fault("", fmt.Sprintf("it is cut off: byte %d is its last, and no end of an archive is before it", size))
			return all, nil
		}
		if _, err := r.ReadAt(h[:], at); err != nil {
			return nil, fmt.Errorf("read byte %d: %w", at, err)
		}
		name, length, err := parse(h[:])
		odd, known := errors.AsType[*oddError](err)
		switch {
		case errors.Is(err, errEnd):
			return all, trailer(r, at, size, fault)
		case err != nil && !known:
			fault("", fmt.Sprintf("byte %d: %v: what follows is not read", at, err))
			return all, nil
		case known:
			fault(odd.name, odd.Error())
		case seen[name]:
			fault(name, "it is there twice")
		}
		at += BlockSize
		if length > size-at {
			fault(name, fmt.Sprintf("it is cut off: %d of %d bytes are there", size-at, length))
			return all, nil
		}
		if !known && !seen[name] {
			all = append(all, Member{name, at, length})
		}
		seen[name] = true
		if err := zeros(r, at+length, min(Padding(length), size-at-length)); err != nil {
			if !errors.Is(err, errNotZero) {
				return nil, err
			}
			fault(name, "the bytes behind it are not zero")
		}
		at += length + Padding(length)
	}
}

var errNotZero = errors.New("bytes are not zero")

func zeros(r io.ReaderAt, at, n int64) error {
	var b [TrailerSize]byte
	if _, err := r.ReadAt(b[:n], at); err != nil && n > 0 && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read byte %d: %w", at, err)
	}
	for _, c := range b[:n] {
		if c != 0 {
			return errNotZero
		}
	}
	return nil
}

// trailer checks the end of an archive.
func trailer(r io.ReaderAt, at, size int64, fault func(member, message string)) error {
	err := zeros(r, at, min(TrailerSize, size-at))
	switch {
	case errors.Is(err, errNotZero):
		fault("", fmt.Sprintf("byte %d: its end is damaged", at))
	case err != nil:
		return err
	case size-at != TrailerSize:
		fault("", fmt.Sprintf("it ends with %d bytes, not with %d: it is cut off, or something follows it", size-at, TrailerSize))
	}
	return nil
}
