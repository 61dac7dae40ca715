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
		return fmt.Errorf("%w: the file ends too early", ErrFormat)
	}
	return err
}

// readLead checks the first bytes. The header repeats everything else in them, and rpm itself
// ignores it.
func (f *File) readLead() error {
	var lead [leadSize]byte
	if _, err := io.ReadFull(f.in, lead[:]); err != nil {
		return cut(err)
	}
	if string(lead[:4]) != leadMagic {
		return fmt.Errorf("%w: it begins with %x, no package does", ErrFormat, lead[:4])
	}
	major := lead[4]
	kind := binary.BigEndian.Uint16(lead[6:])
	signature := binary.BigEndian.Uint16(lead[78:])
	if major < 3 || major > 4 || kind > 1 || signature != 5 {
		return fmt.Errorf(
			"%w: format %d, kind %d, signature type %d; want format 3 or 4, kind 0 or 1, type 5",
			ErrFormat,
			major,
			kind,
			signature,
		)
	}
	return nil
}

// readHeader reads a header with its magic. It allocates memory as the data arrives, not as
// announced by the first bytes.
func (f *File) readHeader() (*Header, error) {
	var intro [len(headerMagic) + introSize]byte
	if _, err := io.ReadFull(f.in, intro[:]); err != nil {
		return nil, cut(err)
	}
	if string(intro[:len(headerMagic)]) != headerMagic {
		return nil, fmt.Errorf("%w: it begins with %x", ErrFormat, intro[:len(headerMagic)])
	}
	sizes := intro[len(headerMagic):]
	count := binary.BigEndian.Uint32(sizes)
	size := binary.BigEndian.Uint32(sizes[4:])
	if err := checkSizes(count, size); err != nil {
		return nil, err
	}
	blob := bytes.NewBuffer(sizes)
	if _, err := io.CopyN(blob, f.in, int64(count)*indexSize+int64(size)); err != nil {
		return nil, cut(err)
	}
	return ParseHeader(blob.Bytes())
}

// checkHeader checks that the region is the whole header, so that no part of it is unsigned.
func (f *File) checkHeader() error {
	if f.Header.regionIndex > 0 {
		if tag, _, _, _ := f.Header.index(0); tag == TagHeaderSignatures ||
			f.Header.regionIndex != f.Header.count() ||
			f.Header.regionData != len(f.Header.store()) {
			return fmt.Errorf(
				"header: %w: there are entries outside of its immutable region",
				ErrFormat,
			)
		}
	}
	var err error
	f.files, err = f.Header.fileList()
	if err != nil {
		return fmt.Errorf("header: %w", err)
	}
	if f.Header.Text(TagName) == "" || f.Header.Text(TagVersion) == "" ||
		f.Header.Text(TagRelease) == "" {
		return fmt.Errorf("header: %w: no name, version or release", ErrFormat)
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
