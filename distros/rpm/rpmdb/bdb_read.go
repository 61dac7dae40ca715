package rpmdb

import "fmt"

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
	r := &bdbReader{bdbMeta: meta, data: data, seen: make([]bool, int(meta.lastPage)+1)}
	for bucket := range meta.maxBucket + 1 {
		if err := r.bucket(bucket); err != nil {
			return c, 0, fmt.Errorf("bucket %d: %w", bucket, err)
		}
	}
	return r.out, uint32(meta.pageSize), nil
}

// page returns a page and marks it as visited.
func (r *bdbReader) page(number uint32) ([]byte, error) {
	if number == 0 || number > r.lastPage {
		return nil, fmt.Errorf("%w: page %d of %d", ErrFormat, number, r.lastPage)
	}
	if r.seen[number] {
		return nil, fmt.Errorf("%w: page %d is used twice", ErrFormat, number)
	}
	r.seen[number] = true
	at := int(number) * r.pageSize
	p := r.data[at : at+r.pageSize]
	if got := le.Uint32(p[8:]); got != number {
		return nil, fmt.Errorf("%w: page %d says that it is page %d", ErrFormat, number, got)
	}
	return p, nil
}

func (r *bdbReader) bucket(bucket uint32) error {
	for next := r.bucketPage(bucket); next != 0; {
		p, err := r.page(next)
		if err != nil {
			return err
		}
		if p[25] != bdbPageHash && p[25] != bdbPageHashUnsorted {
			return fmt.Errorf("%w: page %d is of type %d, want a hash page", ErrFormat, next, p[25])
		}
		if err := r.entries(p); err != nil {
			return fmt.Errorf("page %d: %w", next, err)
		}
		next = le.Uint32(p[16:])
	}
	return nil
}

// entries reads the pairs of keys and values of a hash page.
func (r *bdbReader) entries(p []byte) error {
	n := int(le.Uint16(p[20:]))
	first := bdbPageHeader + 2*n
	if n%2 != 0 || first > r.pageSize {
		return fmt.Errorf("%w: %d entries", ErrFormat, n)
	}
	end := r.pageSize
	for i := 0; i < n; i += 2 {
		keyAt := int(le.Uint16(p[bdbPageHeader+2*i:]))
		valueAt := int(le.Uint16(p[bdbPageHeader+2*i+2:]))
		if keyAt >= end || valueAt >= keyAt || valueAt < first {
			return fmt.Errorf(
				"%w: entry %d at %d and %d, want them below %d and not below %d",
				ErrFormat,
				i,
				keyAt,
				valueAt,
				end,
				first,
			)
		}
		key := p[keyAt:end]
		value := p[valueAt:keyAt]
		if len(key) != 5 || key[0] != bdbEntryInline {
			return fmt.Errorf("%w: the key of entry %d is no package number", ErrFormat, i)
		}
		if err := r.pair(le.Uint32(key[1:]), value); err != nil {
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
	if number == 0 {
		if len(blob) != 4 {
			return fmt.Errorf("%w: the highest number takes %d bytes", ErrFormat, len(blob))
		}
		r.out.Last = max(r.out.Last, le.Uint32(blob))
		return nil
	}
	return r.out.Add(Record{Number: number, Blob: blob}, &r.total)
}

// value returns the bytes of a value, in the page or collected from overflow pages.
func (r *bdbReader) value(value []byte) ([]byte, error) {
	switch {
	case value[0] == bdbEntryInline:
		return value[1:], nil
	case value[0] != bdbEntryOverflow || len(value) != bdbOverflowBytes:
		return nil, fmt.Errorf(
			"%w: a value of type %d and %d bytes",
			ErrFormat,
			value[0],
			len(value),
		)
	}
	next := le.Uint32(value[4:])
	length := le.Uint32(value[8:])
	if int64(length) > min(MaxBlob, int64(len(r.data))) {
		return nil, fmt.Errorf("%w: a value of %d bytes", ErrFormat, length)
	}
	blob := make([]byte, 0, length)
	for next != 0 {
		p, err := r.page(next)
		if err != nil {
			return nil, err
		}
		n := int(le.Uint16(p[22:]))
		if p[25] != bdbPageOverflow || bdbPageHeader+n > r.pageSize || len(blob)+n > int(length) {
			return nil, fmt.Errorf(
				"%w: page %d of type %d holds %d bytes of a value of %d",
				ErrFormat,
				next,
				p[25],
				n,
				length,
			)
		}
		blob = append(blob, p[bdbPageHeader:bdbPageHeader+n]...)
		next = le.Uint32(p[16:])
	}
	if len(blob) != int(length) {
		return nil, fmt.Errorf("%w: %d bytes of a value of %d", ErrFormat, len(blob), length)
	}
	return blob, nil
}
