// Package rpmfile reads the formats of .rpm packages: versions and their order, dependencies,
// headers, signatures and archives, without rpm. It treats all input as hostile: everything is
// bounded, and the names of archive members cannot leave the folder that they are unpacked into.
//
// It does not run scripts, unpack to disk, or read repositories or the files of rpm's database
// (distros/rpm/rpmdb), whose records are these headers.
package rpmfile

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/driver-container/driver-container/distros/compression"
	"github.com/driver-container/driver-container/distros/failure"
)

// Sentinels that callers distinguish. Errors of an underlying reader are returned unchanged.
var (
	// ErrFormat says that bytes or a text violate the format, or exceed any real package.
	ErrFormat = failure.New(failure.Content, "malformed")
	// ErrUnsafePath says that a package has a file that would be outside of the folder it is
	// unpacked into, or that is neither file, folder nor link.
	ErrUnsafePath = failure.New(failure.Content, "unsafe member")
	// ErrSignature says that no accepted key, valid at that time, has signed a package and with
	// that its payload.
	ErrSignature = failure.New(failure.Content, "no trusted signature")
	// ErrDigest says that the payload or a file differs from its digest in the header.
	ErrDigest = failure.New(failure.Content, "digest mismatch")
)

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrFormat, fmt.Errorf(format, args...))
}

const (
	leadSize  = 96
	leadMagic = "\xed\xab\xee\xdb"
	// includes the version of the format, 1, and four reserved bytes
	headerMagic = "\x8e\xad\xe8\x01\x00\x00\x00\x00"
)

// File is a binary or source package, read in one pass from its start to its end: Open, then
// Payload once.
type File struct {
	Header *Header // the metadata
	// signatures and digests of the metadata and the payload; it is not signed itself
	Signature *Header
	XZ        compression.OpenXZ // opens an .xz payload; nil: in Go

	in      *bufio.Reader
	files   []file
	started bool // Payload was called
}

// Open reads a package up to the beginning of its payload: lead, signature header, header. It does
// not close r. Errors in the package are ErrFormat; others are r's own. Before Verify has succeeded
// nothing is authentic; the payload is not authentic before Payload has ended without an error.
func Open(r io.Reader) (*File, error) {
	f := &File{in: bufio.NewReaderSize(r, 256<<10)}
	if err := f.readLead(); err != nil {
		return nil, fmt.Errorf("rpm: %w", err)
	}
	var err error
	f.Signature, err = f.readHeader()
	if err != nil {
		return nil, fmt.Errorf("rpm: signature header: %w", err)
	}
	if pad := -len(f.Signature.Bytes()) & 7; pad > 0 { // the magic before it has 8 bytes
		if _, err := f.in.Discard(pad); err != nil {
			return nil, fmt.Errorf("rpm: after the signature header: %w", cut(err))
		}
	}
	f.Header, err = f.readHeader()
	if err != nil {
		return nil, fmt.Errorf("rpm: header: %w", err)
	}
	if err := f.checkHeader(); err != nil {
		return nil, fmt.Errorf("rpm: %w", err)
	}
	return f, nil
}

// cut returns ErrFormat if the file ends in the middle of a part.
func cut(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return malformed("the file ends too early")
	}
	return err
}

// lead is what a package begins with. The header repeats everything else in it, and rpm itself
// ignores it.
type lead struct {
	Magic        [4]byte
	Major, Minor uint8
	Kind, Arch   uint16 // Kind is binary or source
	Name         [66]byte
	System       uint16
	Signature    uint16
	Reserved     [16]byte
}

func (f *File) readLead() error {
	var l lead
	err := binary.Read(f.in, binary.BigEndian, &l)
	if err != nil {
		return cut(err)
	}
	if string(l.Magic[:]) != leadMagic {
		return malformed("it begins with %x, no package does", l.Magic)
	}
	if l.Major < 3 || l.Major > 4 || l.Kind > 1 || l.Signature != 5 {
		return malformed("format %d, kind %d, signature type %d", l.Major, l.Kind, l.Signature)
	}
	return nil
}

// readHeader reads a header with its magic. It allocates memory as the data arrives, not as
// announced by the first bytes.
func (f *File) readHeader() (*Header, error) {
	var intro struct {
		Magic [len(headerMagic)]byte
		Sizes sizes
	}
	err := binary.Read(f.in, binary.BigEndian, &intro)
	if err != nil {
		return nil, cut(err)
	}
	if string(intro.Magic[:]) != headerMagic {
		return nil, malformed("it begins with %x", intro.Magic)
	}
	err = intro.Sizes.check()
	if err != nil {
		return nil, err
	}
	var blob bytes.Buffer
	err = binary.Write(&blob, binary.BigEndian, intro.Sizes)
	if err != nil {
		return nil, err
	}
	_, err = io.CopyN(&blob, f.in, int64(intro.Sizes.total()))
	if err != nil {
		return nil, cut(err)
	}
	return ParseHeader(blob.Bytes())
}

// checkHeader checks that the region is the whole header, so that no part of it is unsigned.
func (f *File) checkHeader() (err error) {
	h := f.Header
	if h.regionIndex > 0 && (h.index[0].Tag == TagHeaderSignatures ||
		h.regionIndex != len(h.index) || h.regionData != len(h.store)) {
		return fmt.Errorf("header: %w", malformed("there are entries outside of its immutable region"))
	}
	f.files, err = h.fileList()
	if err != nil {
		return fmt.Errorf("header: %w", err)
	}
	for _, tag := range []Tag{TagName, TagVersion, TagRelease} {
		if h.Text(tag) == "" {
			return fmt.Errorf("header: %w", malformed("no name, version or release"))
		}
	}
	return nil
}

// signed returns the bytes that header signatures and digests cover.
func (f *File) signed() []byte { return append([]byte(headerMagic), f.Header.Bytes()...) }

// name returns the package's name for messages.
func (f *File) name() string {
	return fmt.Sprintf(
		"%.100s-%.100s-%.100s",
		f.Header.Text(TagName),
		f.Header.Text(TagVersion),
		f.Header.Text(TagRelease),
	)
}
