package rpmdb

import (
	"bytes"
	"hash/adler32"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/driver-container/driver-container/ci/testkit/require"
)

func TestNDBRoundTrip(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 254, 255, 610} { // 254 slots on the first page
		want := sample(4096)
		want.Records = want.Records[:n]
		for i := range want.Records {
			want.Records[i].Stamp = uint32(i)
		}
		data := WriteNDB(want, 42)
		got, head, err := ReadNDB(data)
		require.NoError(t, err)
		if head != 42 || got.Last != want.Last || len(got.Records) != n {
			t.Errorf("%d records, last %d, generation %d, want %d, %d, 42", len(got.Records), got.Last, head, n, want.Last)
		}
		for i, r := range got.Records {
			if diff := cmp.Diff(want.Records[i], r, cmp.AllowUnexported(Record{})); diff != "" {
				t.Fatal(diff)
			}
		}
	}
}

func TestNDBHostile(t *testing.T) {
	t.Parallel()
	c := Contents{Records: []Record{{Number: 7, Blob: bytes.Repeat([]byte("x"), 1000)}, {Number: 8, Blob: bytes.Repeat([]byte("y"), 1000)}}}
	good := WriteNDB(c, 1)
	put32 := func(at int, v uint32) func([]byte) { return func(b []byte) { le.PutUint32(b[at:], v) } }
	const slot, blob = ndbHeader, ndbPage
	size := int(ndbBlobSize(1000))
	checkHostile(t, good, ReadNDB, 31, map[string]func([]byte){
		"magic":               put32(0, 0),
		"version":             put32(4, 1),
		"no slots":            put32(12, 0),
		"slots beyond":        put32(12, 1<<32-1),
		"slot magic":          put32(slot, 0),
		"slot in the slots":   put32(slot+8, 1),
		"slot beyond":         put32(slot+8, 1<<32-1),
		"slot of no blocks":   put32(slot+12, 0),
		"slot of many blocks": put32(slot+12, 1<<32-1),
		"slots overlap":       put32(slot+ndbBlock+8, ndbPage/ndbBlock),
		"other number":        put32(slot+4, 9),
		"number 0": func(b []byte) {
			le.PutUint32(b[slot+4:], 0)
			le.PutUint32(b[blob+4:], 0)
			le.PutUint32(b[blob+size-ndbTailSize:], adler32.Checksum(b[blob:blob+size-ndbTailSize]))
		},
		"blob magic":  put32(blob, 0),
		"length":      put32(blob+12, 1<<32-1),
		"content":     put32(blob+100, 0),
		"checksum":    put32(blob+size-12, 0),
		"tail length": put32(blob+size-8, 0),
		"tail":        put32(blob+size-4, 0),
	})
}

func FuzzReadNDB(f *testing.F) {
	f.Add(WriteNDB(Contents{Records: []Record{{Number: 7, Blob: []byte("x")}, {Number: 8, Blob: []byte("y")}}, Last: 9}, 1))
	fuzzRead(f, ReadNDB, WriteNDB)
}
