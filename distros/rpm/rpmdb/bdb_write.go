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
	pages    []*bdbPage // the first one is that of the file
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
	w.add(bdbPageMeta, nil)
	buckets := make([][]Record, n)
	for range n {
		w.add(bdbPageHash, nil)
	}
	for _, r := range append([]Record{{Blob: keyOf(c.Last)}}, c.Records...) {
		b := bdbHash(keyOf(r.Number)) & (n - 1)
		buckets[b] = append(buckets[b], r)
	}
	for b, records := range buckets {
		w.bucket(w.pages[b+1], records)
	}
	meta := bdbMeta{
		Log: bdbNoLog, Magic: bdbMagic, Version: 9, PageSize: pageSize, Type: bdbPageMeta,
		LastPage: uint32(len(w.pages) - 1), MaxBucket: n - 1, HighMask: n - 1, LowMask: n/2 - 1,
		Pairs: uint32(len(c.Records) + 1), CharKey: bdbHash([]byte(bdbCharKey)),
	}
	for i := range bits.Len32(n-1) + 1 {
		meta.Spares[i] = 1
	}
	return w.file(meta)
}

func keyOf(n uint32) []byte { return le.AppendUint32(nil, n) }

// file returns all pages. Berkeley DB identifies files by 20 bytes that must differ between files
// and need not be random.
func (w *bdbWriter) file(meta bdbMeta) []byte {
	var out []byte
	for _, p := range w.pages {
		put(p.bytes, p.bdbHead)
		out = append(out, p.bytes...)
	}
	clear(out[:bdbPageHeader])
	put(out, meta)
	sum := sha256.Sum256(out)
	copy(meta.ID[:], sum[:])
	put(out, meta)
	return out
}

// add appends an empty page, as the one that follows another if that is not nil. All of it is free;
// 65536 does not fit and is written as 0, as in Berkeley DB.
func (w *bdbWriter) add(kind uint8, previous *bdbPage) *bdbPage {
	p := &bdbPage{bytes: make([]byte, w.pageSize)}
	p.bdbHead = bdbHead{
		Log: bdbNoLog, Number: uint32(len(w.pages)), Used: uint16(w.pageSize), Type: kind,
	}
	if previous != nil {
		p.Previous = previous.Number
		previous.Next = p.Number
	}
	w.pages = append(w.pages, p)
	return p
}

// bucket fills the page of a bucket, and further pages linked to it, with pairs in the order of
// their keys.
func (w *bdbWriter) bucket(p *bdbPage, records []Record) {
	slices.SortFunc(
		records,
		func(a, b Record) int { return bytes.Compare(keyOf(a.Number), keyOf(b.Number)) },
	)
	free := w.pageSize
	for _, r := range records {
		key := append([]byte{bdbEntryInline}, keyOf(r.Number)...)
		value := w.value(r.Blob)
		if free-len(key)-len(value) < bdbPageHeader+2*(int(p.Entries)+2) {
			p = w.add(bdbPageHash, p)
			free = w.pageSize
		}
		for _, b := range [][]byte{key, value} {
			free -= len(b)
			copy(p.bytes[free:], b)
			le.PutUint16(p.bytes[bdbPageHeader+2*int(p.Entries):], uint16(free))
			p.Entries++
		}
		p.Used = uint16(free)
	}
}

// value encodes a value: inline up to a quarter of a page, which is Berkeley DB's limit, otherwise
// on overflow pages.
func (w *bdbWriter) value(blob []byte) []byte {
	if len(blob) <= w.pageSize/4 {
		return append([]byte{bdbEntryInline}, blob...)
	}
	entry := le.AppendUint32([]byte{bdbEntryOverflow, 0, 0, 0}, uint32(len(w.pages)))
	var p *bdbPage
	for part := range slices.Chunk(blob, w.pageSize-bdbPageHeader) {
		p = w.add(bdbPageOverflow, p)
		p.Entries = 1 // number of users of the value
		p.Used = uint16(len(part))
		copy(p.bytes[bdbPageHeader:], part)
	}
	return le.AppendUint32(entry, uint32(len(blob)))
}
