package sign

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/driver-container/driver-container/distros/bounded"
	"github.com/driver-container/driver-container/distros/compression"
)

// A signed module ends with: PKCS#7, trailer, magic (kernel: include/linux/module_signature.h). The
// trailer is
//
//	{algo, hash, id_type, signer_len, key_id_len, 3 unused, sig_len uint32 big endian}
//
// of which all but id_type and sig_len are zero.
const (
	magic       = "~Module signature appended~\n"
	trailerSize = 12
	idPKCS7     = 2

	maxModule = 1<<31 - 1 // bytes that the kernel reads of a file (INT_MAX)
	// signatures over signatures; two occur when a module is signed again without removing the
	// first
	maxNested = 16
)

// Split finds the signature that is appended last, as kernels do. content is the number of bytes
// that it signs; der is the PKCS#7, which Split does not parse, or nil when there is none. Errors
// wrap ErrMalformed when the length cannot be right (EBADMSG), or ErrUnsupported when the signature
// is not PKCS#7, like those of kernels before 4.3; others are read errors.
func Split(f io.ReaderAt, size int64) (content int64, der []byte, err error) {
	if size < int64(len(magic)) {
		return size, nil, nil
	}
	mark := make([]byte, len(magic))
	if err := readAt(f, mark, size-int64(len(magic))); err != nil {
		return 0, nil, err
	}
	if string(mark) != magic {
		return size, nil, nil
	}
	size -= int64(len(magic))
	if size <= trailerSize {
		return 0, nil, malformed("there is nothing before its last line")
	}
	size -= trailerSize
	trailer := make([]byte, trailerSize)
	if err := readAt(f, trailer, size); err != nil {
		return 0, nil, err
	}
	length := int64(binary.BigEndian.Uint32(trailer[8:]))
	switch {
	case length >= size:
		return 0, nil, malformed(
			"its trailer says %d bytes, and there are %d before it",
			length,
			size,
		)
	case trailer[2] != idPKCS7:
		return 0, nil, fmt.Errorf(
			"%w: its trailer says type %d, not PKCS#7 (%d)",
			ErrUnsupported,
			trailer[2],
			idPKCS7,
		)
	case !bytes.Equal(trailer[:8], []byte{0, 0, idPKCS7, 0, 0, 0, 0, 0}):
		return 0, nil, malformed("its trailer has numbers where zeros belong")
	case length > maxSignature:
		return 0, nil, malformed("%d bytes, kernels take %d", length, maxSignature)
	}
	der = make([]byte, length)
	if err := readAt(f, der, size-length); err != nil {
		return 0, nil, err
	}
	return size - length, der, nil
}

func readAt(f io.ReaderAt, b []byte, at int64) error {
	_, err := io.ReadFull(io.NewSectionReader(f, at, int64(len(b))), b)
	if err != nil {
		return fmt.Errorf("read the signature: %w", err)
	}
	return nil
}

// Compression returns the compression of a file, "" for none, see package compression.
func Compression(f io.ReaderAt) (string, error) {
	head := make([]byte, compression.HeadSize)
	n, err := f.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	return compression.Of(head[:n]), nil
}

// module is an open file of a module.
type module struct {
	*os.File
	size, unsigned int64 // unsigned: without any signatures
	mode           os.FileMode
}

// open opens a module. It refuses a pipe or device of that name and never waits for one. It refuses
// a compressed module, which has its signature inside: a signature appended to it would be lost.
func open(path string) (m module, err error) {
	m.File, err = bounded.Open(path)
	if err != nil {
		return m, err
	}
	defer func() {
		if err != nil {
			m.Close()
		}
	}()
	st, err := m.Stat()
	if err != nil {
		return m, err
	}
	m.size = st.Size()
	m.mode = st.Mode().Perm()
	if m.size == 0 || m.size > maxModule {
		return m, fmt.Errorf(
			"%s has %d bytes: kernels load modules of 1 to %d",
			path,
			m.size,
			maxModule,
		)
	}
	format, err := Compression(m)
	if err != nil || format == "" {
		return m, err
	}
	return m, fmt.Errorf(
		"%s is compressed (%s): a signature belongs inside: unpack the module first, compress it after signing", path, format)
}

// openUnsigned opens a module and finds where it ends and its signatures begin.
func openUnsigned(path string) (m module, err error) {
	m, err = open(path)
	if err != nil {
		return m, err
	}
	m.unsigned, err = unsignedLength(m, m.size)
	if err != nil {
		m.Close()
		return m, fmt.Errorf("%s: %w", path, err)
	}
	return m, nil
}

// unsignedLength returns the length of the module without any signature.
func unsignedLength(f io.ReaderAt, size int64) (int64, error) {
	for range maxNested {
		length, der, err := Split(f, size)
		if err != nil {
			return 0, fmt.Errorf(
				"find where the module ends and its old signature begins: %w: take the module as it was before it was signed",
				err,
			)
		}
		if der == nil {
			return length, nil
		}
		size = length
	}
	return 0, malformed("more than %d signatures, one over the other", maxNested)
}

// content returns the module without its signatures.
func (m module) content() io.Reader { return io.NewSectionReader(m, 0, m.unsigned) }
