package rpmdb

import (
	"bytes"
	"slices"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

// sample returns packages whose headers have sizes around the limits of pages.
func sample(pageSize int) Contents {
	c := Contents{Last: 5000}
	for i, size := range []int{1, 100, pageSize/4 - 1, pageSize / 4, pageSize/4 + 1, pageSize - 26, pageSize - 25, pageSize, 3 * pageSize, 70001} {
		c.Records = append(c.Records, Record{Number: uint32(2*i + 1), Blob: bytes.Repeat([]byte{byte(i + 1)}, size)})
	}
	for i := range 600 { // small ones: buckets with several pages
		c.Records = append(c.Records, Record{Number: uint32(1000 + i), Blob: bytes.Repeat([]byte{byte(i)}, 50+i%50)})
	}
	return c
}

func TestBDBRoundTrip(t *testing.T) {
	t.Parallel()
	for _, size := range []uint32{512, 4096, 32768, 65536} {
		want := sample(int(size))
		data := WriteBDB(want, size)
		got, pages, err := ReadBDB(data)
		require.NoError(t, err)
		slices.SortFunc(got.Records, func(a, b Record) int { return int(a.Number) - int(b.Number) })
		same := func(a, b Record) bool { return a.Number == b.Number && bytes.Equal(a.Blob, b.Blob) }
		if got.Last != want.Last || pages != size || !slices.EqualFunc(got.Records, want.Records, same) {
			t.Errorf("%d: %d records, last %d, pages of %d, want %d, %d", size, len(got.Records), got.Last, pages, len(want.Records), want.Last)
		}
		assert.Equalf(t, true, bytes.Equal(data, WriteBDB(got, pages)), "%d: written again, it is the same file", size)
	}
}

// TestBDBHostile changes single words of a valid file; the reader must notice each change.
func TestBDBHostile(t *testing.T) {
	t.Parallel()
	c := Contents{Records: []Record{{Number: 7, Blob: bytes.Repeat([]byte("x"), 10000)}, {Number: 8, Blob: []byte("y")}}}
	good := WriteBDB(c, 4096)
	var over, bucket int // the first overflow page, and the bucket that points to it
	for at := 4096; at < len(good); at += 4096 {
		if good[at+25] == bdbPageOverflow && over == 0 {
			over = at
		}
		for i := range int(le.Uint16(good[at+20:])) {
			if entry := at + int(le.Uint16(good[at+26+2*i:])); good[at+25] == bdbPageHash && good[entry] == bdbEntryOverflow {
				bucket = at
			}
		}
	}
	put16 := func(at int, v uint16) func([]byte) { return func(b []byte) { le.PutUint16(b[at:], v) } }
	put32 := func(at int, v uint32) func([]byte) { return func(b []byte) { le.PutUint32(b[at:], v) } }
	// The pair with the large value is the one of number 7: find its value's entry.
	entry := bucket + bytes.IndexByte(good[bucket+26+4*2:bucket+4096], bdbEntryOverflow) + 26 + 4*2
	checkHostile(t, good, ReadBDB, 509, map[string]func([]byte){
		"magic":                     put32(12, 0),
		"version":                   put32(16, 7),
		"page size 0":               put32(20, 0),
		"page size odd":             put32(20, 4095),
		"page size huge":            put32(20, 1<<31),
		"encrypted":                 func(b []byte) { b[24] = 1 },
		"checksums":                 func(b []byte) { b[26] = 1 },
		"last page beyond the end":  put32(32, 1000),
		"last page 2^32-1":          put32(32, 1<<32-1),
		"no page":                   put32(32, 0),
		"too many buckets":          put32(72, 1<<32-1),
		"bucket outside":            put32(96, 1<<32-1),
		"bucket used twice":         put32(100, 0),
		"bucket chain is a cycle":   put32(bucket+16, uint32(bucket/4096)),
		"bucket leads to overflow":  put32(bucket+16, uint32(over/4096)),
		"page number":               put32(bucket+8, 99),
		"odd number of entries":     put16(bucket+20, 1),
		"65534 entries":             put16(bucket+20, 65534),
		"key outside":               put16(bucket+26, 65535),
		"value in the page's head":  put16(bucket+28, 3),
		"value behind its key":      put16(bucket+28, 4095),
		"overflow cycle":            put32(over+16, uint32(over/4096)),
		"overflow ends early":       put32(over+16, 0),
		"overflow leads to a hash":  put32(over+16, uint32(bucket/4096)),
		"overflow bytes":            put16(over+22, 5000),
		"overflow of another type":  func(b []byte) { b[over+25] = bdbPageHash },
		"value of unknown type":     func(b []byte) { b[entry] = 4 },
		"value begins outside":      put32(entry+4, 1<<31),
		"value of 4 GiB":            put32(entry+8, 1<<32-1),
		"value shorter than pages":  put32(entry+8, 5000),
		"value longer than pages":   put32(entry+8, 10001),
		"value on page 0, not none": func(b []byte) { le.PutUint32(b[entry+4:], 0) },
	})
}

func FuzzReadBDB(f *testing.F) {
	c := Contents{Records: []Record{{Number: 7, Blob: bytes.Repeat([]byte("x"), 2000)}, {Number: 8, Blob: []byte("y")}}, Last: 9}
	f.Add(WriteBDB(c, 512))
	fuzzRead(f, ReadBDB, WriteBDB)
}
