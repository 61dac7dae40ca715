package unxz

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// maxIndex bounds the index of a stream that is given to the program. dpkg-deb and rpm write
// 8 bytes for each 24 MiB of content.
const maxIndex = 64 << 10

const (
	streamHeader = 12 // bytes; the footer has as many
	lzma2        = 0x21
)

// checkSizes is the size of a block's checksum by the kind of check, for those that the decoder in Go has:
// none, CRC32, CRC64, SHA-256.
var checkSizes = map[byte]int64{0: 0, 1: 4, 4: 8, 10: 32}

// errShape says that a stream is not given to the program: it is damaged, or needs something that the program
// and the decoder in Go could judge differently.
var errShape = errors.New("not one plain stream")

// block is one of the parts of a stream.
type block struct {
	size  int64 // of its content
	kind  byte  // of its checksum
	check []byte
}

func contentSize(blocks []block) (total int64) {
	for _, b := range blocks {
		total += b.size
	}
	return total
}

// readIndex returns the blocks of a file that is exactly one stream, all of whose blocks are plain LZMA2 with
// a dictionary of at most so many bytes. Any other file is errShape.
func readIndex(file *io.SectionReader, dictionary uint32) ([]block, error) {
	var head, foot [streamHeader]byte
	if file.Size() < 2*streamHeader {
		return nil, errShape
	}
	if _, err := file.ReadAt(head[:], 0); err != nil {
		return nil, err
	}
	if _, err := file.ReadAt(foot[:], file.Size()-streamHeader); err != nil {
		return nil, err
	}
	kind := head[7]
	checkSize, known := checkSizes[kind]
	sum := binary.LittleEndian.Uint32
	if string(head[:7]) != "\xfd7zXZ\x00\x00" || !known || crc32.ChecksumIEEE(head[6:8]) != sum(head[8:]) ||
		string(foot[10:]) != "YZ" || !bytes.Equal(foot[8:10], head[6:8]) || crc32.ChecksumIEEE(foot[4:10]) != sum(foot[:]) {
		return nil, errShape
	}
	length := (int64(sum(foot[4:])) + 1) * 4
	start := file.Size() - streamHeader - length
	if length > maxIndex || start < streamHeader {
		return nil, errShape
	}
	index := make([]byte, length)
	if _, err := file.ReadAt(index, start); err != nil {
		return nil, err
	}
	if body := index[:length-4]; crc32.ChecksumIEEE(body) != sum(index[length-4:]) || body[0] != 0 {
		return nil, errShape
	}
	blocks, err := parseRecords(index[1 : length-4])
	if err != nil {
		return nil, err
	}
	offset := int64(streamHeader)
	all := make([]block, len(blocks))
	for i, r := range blocks {
		if err := checkFilter(file, offset, dictionary); err != nil {
			return nil, err
		}
		if r.unpadded <= checkSize || r.unpadded > start-offset {
			return nil, errShape
		}
		offset += (r.unpadded + 3) &^ 3
		all[i] = block{size: r.content, kind: kind, check: make([]byte, checkSize)}
		if _, err := file.ReadAt(all[i].check, offset-checkSize); err != nil {
			return nil, err
		}
	}
	if offset != start {
		return nil, errShape
	}
	return all, nil
}

// record is what an index says of a block. The size without padding includes header and checksum.
type record struct{ unpadded, content int64 }

func parseRecords(in []byte) ([]record, error) {
	r := bytes.NewReader(in)
	count, err := binary.ReadUvarint(r)
	if err != nil || count > uint64(len(in)) {
		return nil, errShape
	}
	all := make([]record, count)
	var total uint64
	for i := range all {
		unpadded, err1 := binary.ReadUvarint(r)
		content, err2 := binary.ReadUvarint(r)
		if total += content; err1 != nil || err2 != nil || unpadded >= 1<<62 || content >= 1<<62 || total >= 1<<62 {
			return nil, errShape
		}
		all[i] = record{int64(unpadded), int64(content)}
	}
	if rest := in[len(in)-r.Len():]; len(rest) > 3 || len(bytes.Trim(rest, "\x00")) > 0 {
		return nil, errShape
	}
	return all, nil
}

// checkFilter reads the header of a block. The program has filters that the decoder in Go lacks, and counts
// memory in another way.
func checkFilter(file io.ReaderAt, offset int64, dictionary uint32) error {
	size := make([]byte, 1)
	if _, err := file.ReadAt(size, offset); err != nil {
		return err
	}
	header := make([]byte, (int(size[0])+1)*4)
	if _, err := file.ReadAt(header, offset); err != nil {
		return fmt.Errorf("%w: %w", errShape, err)
	}
	if size[0] == 0 || header[1]&0x3f != 0 { // one filter, no reserved bits
		return errShape
	}
	r := bytes.NewReader(header[2:])
	for bit := byte(0x40); bit != 0; bit <<= 1 { // the sizes of the block, if it has them
		if header[1]&bit == 0 {
			continue
		}
		if _, err := binary.ReadUvarint(r); err != nil {
			return errShape
		}
	}
	filter := make([]byte, 3) // name, size of properties, properties
	if _, err := io.ReadFull(r, filter); err != nil || filter[0] != lzma2 || filter[1] != 1 || filter[2] >= 40 {
		return errShape
	}
	if need := (2 | uint64(filter[2]&1)) << (filter[2]/2 + 11); need > uint64(dictionary) {
		return errShape
	}
	return nil
}
