// Package tarfile is the tar of a bundle: members of three kinds of names, each with one possible header. The
// place of every member therefore follows from the names and sizes before it, and any other byte is noticed:
// links, sparse members, owners, times, bytes between members.
package tarfile

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// BlockSize is the unit of a tar, in bytes: a header is one block, and content is filled up with zeros.
const BlockSize = 512

// TrailerSize is how many zero bytes end a tar.
const TrailerSize = 2 * BlockSize

// Names of the members that are no blobs.
const (
	LayoutName = "oci-layout"
	IndexName  = "index.json"
	blobPrefix = "blobs/sha256/"
)

var hexDigest = regexp.MustCompile(`^[0-9a-f]{64}$`)

// BlobName is the name of the member with this sha256.
func BlobName(hex string) string { return blobPrefix + hex }

// BlobHex returns the sha256 that a member's name states.
func BlobHex(name string) (hex string, ok bool) {
	hex, ok = strings.CutPrefix(name, blobPrefix)
	return hex, ok && hexDigest.MatchString(hex)
}

// Space is how many bytes a member of this size takes, with its header.
func Space(size int64) int64 { return BlockSize + size + Padding(size) }

// Padding is how many zero bytes follow content of this size.
func Padding(size int64) int64 { return -size & (BlockSize - 1) }

// Fields of a header: offset and length (POSIX.1-1988, ustar).
const (
	modeAt, sizeAt, timeAt, sumAt = 100, 124, 136, 148
	typeAt, magicAt, deviceAt     = 156, 257, 329
	sizeLength                    = 12
	octalEnd                      = 1 << 33 // from it on, a size is binary, as GNU tar writes it
)

// Header returns the header of a member: a regular file of mode 0644 that belongs to root, of 1970.
func Header(name string, size int64) [BlockSize]byte {
	var h [BlockSize]byte
	copy(h[:], name)
	copy(h[modeAt:], "0000644\x000000000\x000000000\x00")
	magic := "ustar\x0000"
	if size < octalEnd {
		copy(h[sizeAt:], fmt.Sprintf("%011o\x00", size))
	} else {
		magic = "ustar  \x00"
		h[sizeAt] = 0x80
		for i := range 8 {
			h[sizeAt+sizeLength-1-i] = byte(size >> (8 * i))
		}
	}
	copy(h[timeAt:], "00000000000\x00        ")
	h[typeAt] = '0'
	copy(h[magicAt:], magic)
	copy(h[deviceAt:], "0000000\x000000000\x00")
	sum := 0
	for _, b := range h {
		sum += int(b)
	}
	copy(h[sumAt:], fmt.Sprintf("%06o\x00 ", sum))
	return h
}

// errEnd says that a block of zeros is where a header could be.
var errEnd = errors.New("the end of the archive")

// parse reads a header. size is valid, and nothing else is wrong, or the error says what is.
func parse(h []byte) (name string, size int64, err error) {
	if len(bytes.Trim(h, "\x00")) == 0 {
		return "", 0, errEnd
	}
	end := bytes.IndexByte(h[:modeAt], 0)
	if end < 0 {
		end = modeAt
	}
	name = string(h[:end])
	if size, err = parseSize(h[sizeAt : sizeAt+sizeLength]); err != nil {
		return name, 0, err
	}
	if want := Header(name, size); !bytes.Equal(h, want[:]) {
		return name, size, &oddError{name, kindOf(h[typeAt])}
	}
	if _, blob := BlobHex(name); !blob && name != LayoutName && name != IndexName {
		return name, size, &oddError{name, "a member that no bundle has"}
	}
	return name, size, nil
}

// oddError says that a member is not one of a bundle. Its size is known, so that the members behind it can be
// read.
type oddError struct{ name, what string }

func (e *oddError) Error() string { return fmt.Sprintf("%q is %s", e.name, e.what) }

func kindOf(typeflag byte) string {
	switch typeflag {
	case '0':
		return "a member whose header is damaged or written by another program"
	case '1', '2':
		return "a link"
	case '5':
		return "a folder"
	case 'S':
		return "a sparse file"
	case 'x', 'g', 'L', 'K':
		return "a member that renames others or gives them attributes"
	}
	return "a member of an unknown kind"
}

func parseSize(field []byte) (int64, error) {
	if field[0] == 0x80 {
		var size int64
		for _, b := range field[4:] {
			size = size<<8 | int64(b)
		}
		if size < 0 || size > 1<<60 || field[1]|field[2]|field[3] != 0 {
			return 0, errors.New("a header states an impossible size")
		}
		return size, nil
	}
	size, err := strconv.ParseInt(string(field[:sizeLength-1]), 8, 64)
	if err != nil || size < 0 {
		return 0, errors.New("there is no header of a tar")
	}
	return size, nil
}
