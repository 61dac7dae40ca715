package rpmdb

import (
	"encoding/binary"
	"math/bits"
)

// The layout of Berkeley DB's hash files, versions 8 to 10, as far as rpm uses it. In hash pages,
// the offsets of entries follow the head, 2 bytes each; entries fill the page from its end
// downwards, with keys at even and values at odd indexes. Overflow pages have bytes instead.
const (
	bdbMagic      = 0x061561
	bdbPageHeader = 26
	bdbNoLog      = 1 << 32 // the log position 0/1: no log contains the page

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
	Log                             uint64
	Number                          uint32
	Magic, Version, PageSize        uint32
	Encryption, Type, Flags, Unused uint8
	Free, LastPage                  uint32
	More                            [4]uint32
	ID                              [20]byte
	MaxBucket, HighMask, LowMask    uint32
	Fill, Pairs, CharKey            uint32
	Spares                          [bdbSpares]uint32
}

// bdbHead is what every other page begins with.
type bdbHead struct {
	Log                    uint64
	Number, Previous, Next uint32
	Entries                uint16
	Used                   uint16 // offset of the first used byte; of overflow pages, the number of bytes
	Level, Type            uint8
}

// bdbPage is a page of a hash file.
type bdbPage struct {
	bdbHead
	bytes []byte // all of it
}

func parseBDB(data []byte) (m bdbMeta, err error) {
	_, err = binary.Decode(data, le, &m)
	if err != nil {
		return m, damaged("%d bytes are less than its first page", len(data))
	}
	pages := int64(m.LastPage) + 1
	switch {
	case m.Magic != bdbMagic || m.Version < 8 || m.Version > 10:
		return m, damaged("no hash file of Berkeley DB of version 8 to 10")
	case m.Encryption != 0 || m.Type != bdbPageMeta || m.Flags != 0:
		return m, damaged("its pages are encrypted, or have checksums")
	case m.PageSize < 512 || m.PageSize > 65536 || bits.OnesCount32(m.PageSize) != 1:
		return m, damaged("pages of %d bytes", m.PageSize)
	case pages > int64(len(data))/int64(m.PageSize) || m.MaxBucket >= m.LastPage:
		return m, damaged("it announces %d pages and has %d bytes", pages, len(data))
	}
	return m, nil
}

// bucketPage returns the first page of a bucket. The sum may wrap around; readers check the result.
func (m *bdbMeta) bucketPage(bucket uint32) uint32 {
	return bucket + m.Spares[min(bits.Len32(bucket), bdbSpares-1)]
}

// bdbHash is the hash function that distributes keys over buckets: FNV-1 without its offset.
func bdbHash(key []byte) uint32 {
	var h uint32
	for _, c := range key {
		h = h*16777619 ^ uint32(c)
	}
	return h
}
