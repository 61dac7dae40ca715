package rpmdb

import (
	"bytes"
	"crypto/sha256"
	"math/bits"
	"slices"
)

// bdbPerBucket is the average number of packages in a bucket: with 4096-byte pages they fit on its
// first page.
const bdbPerBucket = 64

// bdbCharKey is text that a hash file holds so that a program with another hash function notices
// the difference.
const bdbCharKey = "%$sniglet^&\x00"

// bdbWriter makes a new hash file: the first page, one page for each bucket, then further pages for
// data that does not fit.
type bdbWriter struct {
	pageSize int
	pages    [][]byte
}

// WriteBDB returns a file Packages of version 9, which Berkeley DB 4.6 and later read, with the
// page size of the base's file. The number of buckets is a power of two, so that the next bucket
// begins a doubling of its own.
func WriteBDB(c Contents, pageSize uint32) []byte {
	w := &bdbWriter{pageSize: int(pageSize)}
	n := uint32(2)
	for int(n)*bdbPerBucket < len(c.Records) {
		n *= 2
	}
	w.pages = append(w.pages, make([]byte, w.pageSize)) // the first page, filled in at the end
	for range n {
		w.newPage(bdbPageHash)
	}
	buckets := make([][]Record, n)
	for _, r := range append([]Record{{Blob: keyOf(c.Last)}}, c.Records...) {
		b := bdbHash(keyOf(r.Number)) & (n - 1)
		buckets[b] = append(buckets[b], r)
	}
	for b, records := range buckets {
		w.bucket(uint32(b)+1, records)
	}
	w.meta(n, uint32(len(c.Records)+1))
	out := bytes.Join(w.pages, nil)
	// Berkeley DB identifies files by 20 bytes that must differ between files and need not be
	// random.
	sum := sha256.Sum256(out)
	copy(out[52:72], sum[:])
	return out
}

func keyOf(n uint32) []byte { return le.AppendUint32(nil, n) }

// newPage appends an empty page and returns its number.
func (w *bdbWriter) newPage(kind byte) uint32 {
	p := make([]byte, w.pageSize)
	number := uint32(len(w.pages))
	w.stamp(p, number, kind)
	// all of it free; 65536 does not fit and is written as 0, as in Berkeley DB
	le.PutUint16(p[22:], uint16(w.pageSize))
	w.pages = append(w.pages, p)
	return number
}

// stamp writes the fields that all pages have. The log position 0/1 means that no log contains the
// page.
func (w *bdbWriter) stamp(p []byte, number uint32, kind byte) {
	le.PutUint32(p[4:], 1)
	le.PutUint32(p[8:], number)
	p[25] = kind
}

// bucket fills the page of a bucket, and further pages linked to it, with pairs in the order of
// their keys.
func (w *bdbWriter) bucket(number uint32, records []Record) {
	slices.SortFunc(
		records,
		func(a, b Record) int { return bytes.Compare(keyOf(a.Number), keyOf(b.Number)) },
	)
	free := w.pageSize
	entries := 0
	for _, r := range records {
		key := append([]byte{bdbEntryInline}, keyOf(r.Number)...)
		value := w.value(r.Blob)
		if free-len(key)-len(value) < bdbPageHeader+2*(entries+2) {
			next := w.newPage(bdbPageHash)
			le.PutUint32(w.pages[number][16:], next)
			le.PutUint32(w.pages[next][12:], number)
			number = next
			free = w.pageSize
			entries = 0
		}
		p := w.pages[number]
		for _, b := range [][]byte{key, value} {
			free -= len(b)
			copy(p[free:], b)
			le.PutUint16(p[bdbPageHeader+2*entries:], uint16(free))
			entries++
		}
		le.PutUint16(p[20:], uint16(entries))
		le.PutUint16(p[22:], uint16(free))
	}
}

// value encodes a value: inline up to a quarter of a page, which is Berkeley DB's limit, otherwise
// on overflow pages.
func (w *bdbWriter) value(blob []byte) []byte {
	if len(blob) <= w.pageSize/4 {
		return append([]byte{bdbEntryInline}, blob...)
	}
	entry := make([]byte, bdbOverflowBytes)
	entry[0] = bdbEntryOverflow
	le.PutUint32(entry[8:], uint32(len(blob)))
	previous := uint32(0)
	for part := range slices.Chunk(blob, w.pageSize-bdbPageHeader) {
		number := w.newPage(bdbPageOverflow)
		p := w.pages[number]
		le.PutUint32(p[12:], previous)
		le.PutUint16(p[20:], 1) // number of users of the value
		le.PutUint16(p[22:], uint16(len(part)))
		copy(p[bdbPageHeader:], part)
		if previous == 0 {
			le.PutUint32(entry[4:], number)
		} else {
			le.PutUint32(w.pages[previous][16:], number)
		}
		previous = number
	}
	return entry
}

// meta writes the first page.
func (w *bdbWriter) meta(buckets, pairs uint32) {
	p := w.pages[0]
	w.stamp(p, 0, bdbPageMeta)
	put := func(at int, v uint32) { le.PutUint32(p[at:], v) }
	put(12, bdbMagic)
	put(16, 9)
	put(20, uint32(w.pageSize))
	put(32, uint32(len(w.pages)-1))
	put(72, buckets-1)
	put(76, buckets-1)   // mask of the existing buckets
	put(80, buckets/2-1) // mask of half of them
	put(88, pairs)
	put(92, bdbHash([]byte(bdbCharKey)))
	for i := range bits.Len32(buckets-1) + 1 {
		put(96+4*i, 1)
	}
}
