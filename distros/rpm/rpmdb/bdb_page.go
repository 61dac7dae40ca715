package rpmdb

import (
	"fmt"
	"math/bits"
)

// The layout of Berkeley DB's hash files, versions 8 to 10, as far as rpm uses it. A page begins
// with these fields, given as offset, name and size:
//
//	0 log position (8)   8 its number (4)   12 previous (4)   16 next (4)
//	20 entries (2)   22 first used byte (2)   24 level (1)   25 type (1)
//
// In hash pages, the offsets of entries follow, 2 bytes each; entries fill the page from its end
// downwards, with keys at even and values at odd indexes. Overflow pages have the number of their
// bytes at 22 and the bytes from 26.
const (
	bdbMagic      = 0x061561
	bdbMetaBytes  = 512
	bdbPageHeader = 26

	bdbPageHashUnsorted = 2 // of version 8
	bdbPageOverflow     = 7
	bdbPageMeta         = 8
	bdbPageHash         = 13

	bdbEntryInline   = 1 // type, bytes
	bdbEntryOverflow = 3 // type, 3 unused, page (4), length (4)
	bdbOverflowBytes = 12

	bdbSpares = 32 // each says where the pages of one doubling of the buckets begin
)

// bdbMeta is the first page of a hash file.
type bdbMeta struct {
	version   uint32
	pageSize  int
	lastPage  uint32
	maxBucket uint32
	spares    [bdbSpares]uint32
}

func parseBDB(data []byte) (bdbMeta, error) {
	var m bdbMeta
	if len(data) < bdbMetaBytes {
		return m, fmt.Errorf("%w: %d bytes are less than its first page", ErrFormat, len(data))
	}
	if le.Uint32(data[12:]) != bdbMagic {
		return m, fmt.Errorf("%w: no hash file of Berkeley DB", ErrFormat)
	}
	m.version = le.Uint32(data[16:])
	size := le.Uint32(data[20:])
	m.lastPage, m.maxBucket = le.Uint32(data[32:]), le.Uint32(data[72:])
	for i := range m.spares {
		m.spares[i] = le.Uint32(data[96+4*i:])
	}
	switch {
	case m.version < 8 || m.version > 10:
		return m, fmt.Errorf("%w: hash file of version %d, want 8 to 10", ErrFormat, m.version)
	case size < 512 || size > 65536 || bits.OnesCount32(size) != 1:
		return m, fmt.Errorf("%w: pages of %d bytes", ErrFormat, size)
	case data[24] != 0 || data[25] != bdbPageMeta || data[26] != 0:
		return m, fmt.Errorf(
			"%w: first page of type %d with encryption %d and flags %#x",
			ErrFormat,
			data[25],
			data[24],
			data[26],
		)
	case int64(m.lastPage)+1 > int64(len(data))/int64(size):
		return m, fmt.Errorf(
			"%w: %d pages of %d bytes announced, the file has %d bytes",
			ErrFormat,
			int64(m.lastPage)+1,
			size,
			len(data),
		)
	case m.maxBucket >= m.lastPage:
		return m, fmt.Errorf(
			"%w: %d buckets in %d pages",
			ErrFormat,
			int64(m.maxBucket)+1,
			m.lastPage,
		)
	}
	m.pageSize = int(size)
	return m, nil
}

// bucketPage returns the first page of a bucket. The sum may wrap around; readers check the result.
func (m *bdbMeta) bucketPage(bucket uint32) uint32 {
	return bucket + m.spares[min(bits.Len32(bucket), bdbSpares-1)]
}

// bdbHash is the hash function that distributes keys over buckets: FNV-1 without its offset.
func bdbHash(key []byte) uint32 {
	var h uint32
	for _, c := range key {
		h = h*16777619 ^ uint32(c)
	}
	return h
}
