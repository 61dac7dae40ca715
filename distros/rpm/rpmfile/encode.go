package rpmfile

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Entry is a value to add to a header. Value has the Go type that the constant of its Type names; strings
// must not contain zero bytes, and slices must not be empty.
type Entry struct {
	Tag   Tag
	Type  Type
	Value any
}

// With returns the header with entries added behind the immutable region, as rpm does when it installs a
// package: the bytes of the region do not change, and the entries behind it are sorted by their tags. An
// entry replaces one with the same tag; if that one is inside the region, its value stays there without
// effect. For a header without a region, everything is encoded again.
func (h *Header) With(entries ...Entry) (*Header, error) {
	encoded := make([]entry, len(entries))
	for i, e := range entries {
		var err error
		if encoded[i], err = e.encode(); err != nil {
			return nil, fmt.Errorf("add tag %d to a header: %w: %w", e.Tag, ErrFormat, err)
		}
	}
	return h.with(encoded)
}

func (h *Header) with(entries []entry) (*Header, error) {
	behind := map[Tag]entry{}
	for i := h.regionIndex; i < h.count(); i++ {
		tag, _, _, _ := h.index(i)
		behind[tag] = h.entries[h.byTag[tag]]
	}
	for _, e := range entries {
		behind[e.tag] = e
	}
	sorted := slices.SortedFunc(maps.Values(behind), func(a, b entry) int { return cmp.Compare(a.tag, b.tag) })
	index, store := []byte{}, []byte{}
	if h.regionIndex > 0 {
		index = append(index, h.blob[introSize:introSize+h.regionIndex*indexSize]...)
		store = append(store, h.store()[:h.regionData]...)
	}
	for _, e := range sorted {
		for len(store)%alignment(e.kind) != 0 {
			store = append(store, 0)
		}
		for _, word := range []uint32{uint32(e.tag), uint32(e.kind), uint32(len(store)), uint32(e.count)} {
			index = binary.BigEndian.AppendUint32(index, word)
		}
		store = append(store, e.data...)
	}
	blob := make([]byte, 0, introSize+len(index)+len(store))
	blob = binary.BigEndian.AppendUint32(blob, uint32(len(index)/indexSize))
	blob = binary.BigEndian.AppendUint32(blob, uint32(len(store)))
	return ParseHeader(append(append(blob, index...), store...))
}

func (h *Header) count() int {
	if len(h.blob) < introSize { // the zero Header
		return 0
	}
	return int(binary.BigEndian.Uint32(h.blob))
}

// encode returns the bytes of a value.
func (e Entry) encode() (entry, error) {
	out := entry{tag: e.Tag, kind: e.Type}
	fits := false
	switch v := e.Value.(type) {
	case []byte:
		out.count, out.data, fits = len(v), v, typeSize(e.Type) == 1
	case []uint16:
		for _, n := range v {
			out.data = binary.BigEndian.AppendUint16(out.data, n)
		}
		out.count, fits = len(v), e.Type == TypeInt16
	case []uint32:
		for _, n := range v {
			out.data = binary.BigEndian.AppendUint32(out.data, n)
		}
		out.count, fits = len(v), e.Type == TypeInt32
	case []uint64:
		for _, n := range v {
			out.data = binary.BigEndian.AppendUint64(out.data, n)
		}
		out.count, fits = len(v), e.Type == TypeInt64
	case string:
		out.count, out.data, fits = 1, append([]byte(v), 0), e.Type == TypeString && !strings.Contains(v, "\x00")
	case []string:
		for _, s := range v {
			if strings.Contains(s, "\x00") {
				return out, fmt.Errorf("%.80q has a zero byte", s)
			}
			out.data = append(append(out.data, s...), 0)
		}
		out.count, fits = len(v), e.Type == TypeStringArray || e.Type == TypeI18NString
	}
	if !fits || out.count == 0 {
		return out, fmt.Errorf("a value of Go type %T does not go into an entry of type %d", e.Value, e.Type)
	}
	return out, nil
}
