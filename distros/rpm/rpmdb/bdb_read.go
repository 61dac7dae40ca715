package rpmdb

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// bdbReader reads a hash file in memory. It visits every page at most once, over all buckets and
// values. A cycle, or a page that two owners share, is an error. Time and memory are therefore
// bounded by the size of the file.
type bdbReader struct {
	bdbMeta
	data  []byte
	seen  []bool
	out   Contents
	total int
}

// ReadBDB reads the file Packages. Its keys have 4 bytes and are the numbers of packages; its
// values are headers. The record with number 0 holds the highest number that was assigned. pageSize
// is in bytes. Errors are ErrFormat.
func ReadBDB(data []byte) (c Contents, pageSize uint32, err error) {
	meta, err := parseBDB(data)
	if err != nil {
		return c, 0, err
	}
	r := &bdbReader{bdbMeta: meta, data: data, seen: make([]bool, int(meta.LastPage)+1)}
	for bucket := range meta.MaxBucket + 1 {
		err = r.bucket(bucket)
		if err != nil {
			return c, 0, fmt.Errorf("bucket %d: %w", bucket, err)
		}
	}
	return r.out, meta.PageSize, nil
}

// page returns a page of one of some types and marks it as visited.
func (r *bdbReader) page(number uint32, types ...uint8) (p bdbPage, err error) {
	if number == 0 || number > r.LastPage || r.seen[number] {
		return p, damaged("page %d does not exist, or is used twice", number)
	}
	r.seen[number] = true
	size := int(r.PageSize)
	p.bytes = r.data[int(number)*size:][:size]
	_, err = binary.Decode(p.bytes, le, &p.bdbHead)
	if err != nil || p.Number != number || !slices.Contains(types, p.Type) {
		return p, damaged("page %d says that it is page %d of type %d", number, p.Number, p.Type)
	}
	return p, nil
}

func (r *bdbReader) bucket(bucket uint32) error {
	for next := r.bucketPage(bucket); next != 0; {
		p, err := r.page(next, bdbPageHash, bdbPageHashUnsorted)
		if err != nil {
			return err
		}
		err = r.entries(p)
		if err != nil {
			return fmt.Errorf("page %d: %w", next, err)
		}
		next = p.Next
	}
	return nil
}

// entries reads the pairs of keys and values of a hash page.
func (r *bdbReader) entries(p bdbPage) error {
	n := int(p.Entries)
	first := bdbPageHeader + 2*n
	end := len(p.bytes)
	if n%2 != 0 || first > end {
		return damaged("%d entries", n)
	}
	offset := func(i int) int { return int(le.Uint16(p.bytes[bdbPageHeader+2*i:])) }
	for i := 0; i < n; i += 2 {
		keyAt := offset(i)
		valueAt := offset(i + 1)
		if keyAt != end-5 || p.bytes[keyAt] != bdbEntryInline || valueAt >= keyAt || valueAt < first {
			return damaged("entry %d is not a package's number and header", i)
		}
		err := r.pair(le.Uint32(p.bytes[keyAt+1:]), p.bytes[valueAt:keyAt])
		if err != nil {
			return err
		}
		end = valueAt
	}
	return nil
}

func (r *bdbReader) pair(number uint32, value []byte) error {
	blob, err := r.value(value)
	if err != nil {
		return fmt.Errorf("package %d: %w", number, err)
	}
	if number != 0 {
		return r.out.Add(Record{Number: number, Blob: blob}, &r.total)
	}
	if len(blob) != 4 {
		return damaged("the highest number takes %d bytes", len(blob))
	}
	r.out.Last = max(r.out.Last, le.Uint32(blob))
	return nil
}

// value returns the bytes of a value, in the page or collected from overflow pages.
func (r *bdbReader) value(value []byte) ([]byte, error) {
	if value[0] == bdbEntryInline {
		return value[1:], nil
	}
	if value[0] != bdbEntryOverflow || len(value) != bdbOverflowBytes {
		return nil, damaged("a value of type %d and %d bytes", value[0], len(value))
	}
	length := int(le.Uint32(value[8:]))
	if length > min(MaxBlob, len(r.data)) {
		return nil, damaged("a value of %d bytes", length)
	}
	blob := make([]byte, 0, length)
	for next := le.Uint32(value[4:]); next != 0; {
		p, err := r.page(next, bdbPageOverflow)
		if err != nil {
			return nil, err
		}
		end := bdbPageHeader + int(p.Used)
		if end > len(p.bytes) {
			return nil, damaged("page %d holds %d bytes", next, p.Used)
		}
		blob = append(blob, p.bytes[bdbPageHeader:end]...)
		next = p.Next
	}
	if len(blob) != length {
		return nil, damaged("%d bytes of a value of %d", len(blob), length)
	}
	return blob, nil
}
