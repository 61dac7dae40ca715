package bundle

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"

	"github.com/driver-container/driver-container/images/oci"
)

// A tar consists of blocks: a header is one, content is filled up with zeros, and two of zeros are
// the end.
const (
	blockSize   = oci.TarBlock
	trailerSize = 2 * blockSize
)

// maxMembers bounds the members of an archive: those of the list, and a few of the bundle itself.
const maxMembers = 100_100

// Names of the members that are no blobs, and the folder of the others.
const (
	layoutName = "oci-layout"
	indexName  = "index.json"
	blobFolder = "blobs/sha256/"
)

// members reads an archive from its beginning to its end. Every byte that is no content has one
// possible value, so that links, sparse members, owners, times and bytes between members are
// noticed. Errors about the archive are findings.
type members struct {
	from io.Reader
	at   int64 // bytes that were read
	rest int64 // of the content of this member
	pad  int64 // bytes behind it
	n    int
}

// next goes behind the member, whose content must have been read, to the next one. The error is
// io.EOF at the sound end of the archive.
func (m *members) next() (name string, size int64, err error) {
	err = m.zeros(m.pad)
	if err != nil {
		return "", 0, err
	}
	m.pad = 0
	block, err := m.block(blockSize)
	if err != nil {
		return "", 0, err
	}
	if block == [blockSize]byte{} {
		return "", 0, m.end()
	}
	m.n++
	if m.n > maxMembers {
		return "", 0, fault(RuleArchive, "", "it has more than %d members", maxMembers)
	}
	h, err := parseHeader(block[:])
	if err != nil {
		return "", 0, fault(
			RuleArchive, "",
			"byte %d: there is no header of a member as bundles have them, but a link, a folder, one of another program, or damage",
			m.at-blockSize,
		)
	}
	m.rest = h.Size
	m.pad = -h.Size & (blockSize - 1)
	return h.Name, h.Size, nil
}

// end reads what follows the first block of zeros. Its error is io.EOF, or says what is wrong.
func (m *members) end() error {
	err := m.zeros(trailerSize - blockSize)
	if err != nil {
		return err
	}
	n, _ := io.CopyN(io.Discard, m.from, 1)
	if n > 0 {
		return fault(RuleArchive, "", "something follows the end of the archive")
	}
	return io.EOF
}

// parseHeader reads a header that is byte for byte as bundles have it.
func parseHeader(block []byte) (*tar.Header, error) {
	h, err := tar.NewReader(bytes.NewReader(block)).Next()
	if err != nil {
		return nil, err
	}
	var want bytes.Buffer
	err = tar.NewWriter(&want).WriteHeader(oci.TarHeader(h.Name, h.Size))
	if err != nil || !bytes.Equal(want.Bytes(), block) {
		return nil, errors.New("it is of another program")
	}
	return h, nil
}

// Read reads the content of the member.
func (m *members) Read(p []byte) (int, error) {
	if m.rest == 0 {
		return 0, io.EOF
	}
	n, err := m.from.Read(p[:min(int64(len(p)), m.rest)])
	m.rest -= int64(n)
	m.at += int64(n)
	if err != nil && m.rest > 0 {
		return n, cutOff(err)
	}
	return n, nil
}

// block reads a block, or a part of one; the rest is zero.
func (m *members) block(n int64) (b [blockSize]byte, err error) {
	_, err = io.ReadFull(m.from, b[:n])
	m.at += n
	return b, cutOff(err)
}

func (m *members) zeros(n int64) error {
	b, err := m.block(n)
	if err != nil {
		return err
	}
	if b != [blockSize]byte{} {
		return fault(RuleArchive, "", "byte %d: bytes between members are not zero", m.at-n)
	}
	return nil
}

func cutOff(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fault(RuleArchive, "", "it is cut off")
	}
	return err
}
