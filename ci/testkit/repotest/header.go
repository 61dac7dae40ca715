package repotest

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/require"
)

// Entry is a value in an rpm header: a string (type 6), or a slice of strings (8), bytes (7) or
// numbers of 16 (3), 32 (4) or 64 bits (5). A Type that is not 0 replaces the one that follows from
// the value.
type Entry struct {
	Tag, Type uint32
	Value     any
}

// encode returns the type, how many values there are, the size of a number, and the data.
func (e Entry) encode(t testing.TB) (kind uint32, count, size int, data []byte) {
	t.Helper()
	switch v := e.Value.(type) {
	case string:
		return cmp.Or(e.Type, 6), 1, 1, append([]byte(v), 0)
	case []string:
		return cmp.Or(e.Type, 8), len(v), 1, []byte(strings.Join(v, "\x00") + "\x00")
	}
	var b bytes.Buffer
	require.NoError(t, binary.Write(&b, binary.BigEndian, e.Value))
	numbers := reflect.ValueOf(e.Value)
	size = int(numbers.Type().Elem().Size())
	return cmp.Or(
		e.Type,
		map[int]uint32{1: 7, 2: 3, 4: 4, 8: 5}[size],
	), numbers.Len(), size, b.Bytes()
}

// Tags of the regions of headers.
const (
	Signatures = 62
	Immutable  = 63
)

// Region encodes entries as rpmbuild does: all of them in a region with a tag.
func Region(t testing.TB, tag uint32, entries ...Entry) []byte {
	t.Helper()
	index, store := encodeAll(t, entries)
	n := uint32(len(entries) + 1)
	size := uint32(len(store))
	out := Words(nil, n, size+16, tag, 7, size, 16)
	return Words(slices.Concat(out, index, store), tag, 7, -n*16, 16)
}

// Header encodes entries without a region.
func Header(t testing.TB, entries ...Entry) []byte {
	t.Helper()
	index, store := encodeAll(t, entries)
	return slices.Concat(Words(nil, uint32(len(entries)), uint32(len(store))), index, store)
}

func encodeAll(t testing.TB, entries []Entry) (index, store []byte) {
	t.Helper()
	slices.SortStableFunc(entries, func(a, b Entry) int { return cmp.Compare(a.Tag, b.Tag) })
	for _, e := range entries {
		kind, count, size, data := e.encode(t)
		store = append(store, make([]byte, (size-len(store)%size)%size)...)
		index = Words(index, e.Tag, kind, uint32(len(store)), uint32(count))
		store = append(store, data...)
	}
	return index, store
}

// Words appends numbers.
func Words(to []byte, all ...uint32) []byte {
	for _, w := range all {
		to = binary.BigEndian.AppendUint32(to, w)
	}
	return to
}
