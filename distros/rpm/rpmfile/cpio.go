package rpmfile

import (
	"errors"
	"io"
	"strconv"
)

const (
	cpioMagic   = "070701" // "newc": all numbers as eight hex digits, then the name
	cpioChecked = "070702" // the same with a checksum, which is not checked: the digests are
	// rpm's own format, of packages that rpm 6 makes in its own version: only the number of the
	// file in the header's list
	cpioStripped = "07070X"
	cpioTrailer  = "TRAILER!!!"
	maxCPIOName  = 4096 + 2
)

// archive reads the cpio archives of packages. cavaliergopher/cpio is not used, because it reads
// broken numbers as zero and does not know the stripped format.
type archive struct {
	in   io.Reader
	at   int64 // bytes read
	left int64 // bytes left of the current member; who reads it sets its size
}

// member is the beginning of a member of the archive.
type member struct {
	index int    // in the header's list of files; -1: use the name
	name  string // as in the archive
	size  int64  // -1: use the size in the header
}

// next skips the rest of the current member and reads the beginning of the next; it returns io.EOF
// at the archive's own end mark.
func (a *archive) next() (member, error) {
	_, err := io.CopyN(io.Discard, a, a.left)
	if err != nil {
		return member{}, cut(err)
	}
	err = a.pad()
	if err != nil {
		return member{}, err
	}
	var magic [6]byte
	err = a.full(magic[:])
	if err != nil {
		return member{}, err
	}
	switch string(magic[:]) {
	case cpioMagic, cpioChecked:
		return a.named()
	case cpioStripped:
		n, err := a.number()
		if err != nil {
			return member{}, err
		}
		if n > maxPaths {
			return member{}, malformed("member is file %d of the header", n)
		}
		return member{index: int(n), size: -1}, a.pad()
	}
	return member{}, malformed("%q where a member of a cpio archive should begin", magic)
}

// named reads inode, mode, owner, group, links, time, size, two devices of two numbers each, length
// of the name, checksum, name. It returns only name and size: the package's header has all else,
// and the header is signed.
func (a *archive) named() (member, error) {
	var fields [13]int64
	for i := range fields {
		var err error
		fields[i], err = a.number()
		if err != nil {
			return member{}, err
		}
	}
	size := fields[6]
	length := fields[11]
	if length < 1 || length > maxCPIOName {
		return member{}, malformed("the name of a member has %d bytes", length)
	}
	name := make([]byte, length)
	if err := a.full(name); err != nil {
		return member{}, err
	}
	if name[length-1] != 0 {
		return member{}, malformed("the name %.100q of a member does not end", name)
	}
	if err := a.pad(); err != nil {
		return member{}, err
	}
	m := member{index: -1, name: string(name[:length-1]), size: size}
	if m.name == cpioTrailer && size == 0 {
		return m, io.EOF
	}
	return m, nil
}

// Read reads from the current member.
func (a *archive) Read(p []byte) (int, error) {
	if a.left == 0 {
		return 0, io.EOF
	}
	n, err := a.in.Read(p[:min(int64(len(p)), a.left)])
	a.left -= int64(n)
	a.at += int64(n)
	switch {
	case !errors.Is(err, io.EOF):
		return n, err
	case a.left > 0:
		return n, cut(err)
	}
	return n, nil
}

func (a *archive) full(p []byte) error {
	n, err := io.ReadFull(a.in, p)
	a.at += int64(n)
	if err != nil {
		return cut(err)
	}
	return nil
}

func (a *archive) number() (int64, error) {
	var digits [8]byte
	if err := a.full(digits[:]); err != nil {
		return 0, err
	}
	n, err := strconv.ParseUint(string(digits[:]), 16, 32)
	if err != nil {
		return 0, malformed("%q in a cpio archive is not a hexadecimal number", digits)
	}
	return int64(n), nil
}

// pad skips to the next multiple of four bytes.
func (a *archive) pad() error {
	var rest [3]byte
	return a.full(rest[:-a.at&3])
}
