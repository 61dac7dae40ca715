// Package packtest writes rpm packages and repositories in Go, quickly and, where a test wants it, wrong
// in one detail. It shares no code with the packages that read them. The real tools make those of
// package realrepo.
package packtest

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

// Entry is a value in a header: a string (type 6), or a slice of strings (8), bytes (7) or numbers of 16 (3),
// 32 (4) or 64 bits (5). A Type that is not 0 replaces the one that follows from the value.
type Entry struct {
	Tag, Type uint32
	Value     any
}

func (e Entry) kind() uint32 {
	if e.Type != 0 {
		return e.Type
	}
	switch e.Value.(type) {
	case string:
		return 6
	case []string:
		return 8
	case []byte:
		return 7
	case []uint16:
		return 3
	case []uint64:
		return 5
	}
	return 4
}

func (e Entry) encode(t testing.TB) (count int, data []byte) {
	switch v := e.Value.(type) {
	case string:
		return 1, append([]byte(v), 0)
	case []string:
		return len(v), []byte(strings.Join(v, "\x00") + "\x00")
	}
	var b bytes.Buffer
	require.NoError(t, binary.Write(&b, binary.BigEndian, e.Value))
	return reflect.ValueOf(e.Value).Len(), b.Bytes()
}

// Tags of the regions of headers.
const (
	Signatures = 62
	Immutable  = 63
)

// Region encodes entries as rpmbuild does: all of them in a region with a tag.
func Region(t testing.TB, tag uint32, entries ...Entry) []byte {
	t.Helper()
	slices.SortStableFunc(entries, func(a, b Entry) int { return cmp.Compare(a.Tag, b.Tag) })
	var index, store []byte
	for _, e := range entries {
		count, data := e.encode(t)
		if size := map[uint32]int{3: 2, 4: 4, 5: 8}[e.kind()]; size > 0 {
			store = append(store, make([]byte, (size-len(store)%size)%size)...)
		}
		index = Words(index, e.Tag, e.kind(), uint32(len(store)), uint32(count))
		store = append(store, data...)
	}
	n, size := uint32(len(entries)+1), uint32(len(store))
	out := Words(nil, n, size+16, tag, 7, size, 16)
	return Words(slices.Concat(out, index, store), tag, 7, -n*16, 16)
}

// Words appends numbers.
func Words(to []byte, all ...uint32) []byte {
	for _, w := range all {
		to = binary.BigEndian.AppendUint32(to, w)
	}
	return to
}
