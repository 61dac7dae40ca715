package rpmfile

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// Bounds for one header. rpm allows as many entries, and four times as much data; the headers of
// the largest packages (kernel-devel, 20000 files) have 4 MiB.
const (
	maxIndex = 0xffff
	maxStore = 64 << 20
)

const (
	introSize = 8  // number of entries, size of the data
	indexSize = 16 // one entry: see place
)

// Header is the metadata of a package, as stored in a .rpm file and in rpm's database: typed
// entries by tag. It does not change after it was made. The zero Header has no entries.
type Header struct {
	blob  []byte
	index []place
	store []byte // the data
	// regionIndex and regionData are the sizes of the immutable region, which is the part that is
	// signed, in the index and in the data. They are 0 if there is no region.
	regionIndex, regionData int
	entries                 map[Tag]entry
}

// place is an entry of the index as it is written.
type place struct {
	Tag    Tag
	Type   Type
	Offset int32
	Count  uint32
}

// entry is a value.
type entry struct {
	tag   Tag
	kind  Type
	count int
	data  []byte // a part of the header's blob
}

// sizes are what a header begins with.
type sizes struct{ Count, Data uint32 }

func (s sizes) check() error {
	if s.Count == 0 || s.Count > maxIndex || s.Data > maxStore {
		return malformed("%d entries and %d bytes of data", s.Count, s.Data)
	}
	return nil
}

// total returns the size of the header without the sizes.
func (s sizes) total() int { return int(s.Count)*indexSize + int(s.Data) }

// ParseHeader reads a header in the form of the database: the number of entries, the size of the
// data, the index, the data, and nothing after that. The Header refers to blob, which must not
// change any more. Errors are ErrFormat.
func ParseHeader(blob []byte) (*Header, error) {
	h := &Header{blob: blob, entries: map[Tag]entry{}}
	err := h.parse()
	if err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	return h, nil
}

func (h *Header) parse() error {
	var s sizes
	_, err := binary.Decode(h.blob, binary.BigEndian, &s)
	if err != nil {
		return malformed("%d bytes", len(h.blob))
	}
	err = s.check()
	if err != nil {
		return err
	}
	body := h.blob[introSize:]
	if len(body) != s.total() {
		return malformed("%d bytes, its first words say %d", len(body), s.total())
	}
	h.index = make([]place, s.Count)
	h.store = body[int(s.Count)*indexSize:]
	_, err = binary.Decode(body, binary.BigEndian, h.index)
	if err != nil {
		return err
	}
	err = h.readRegion()
	if err != nil {
		return err
	}
	return h.readEntries()
}

// readRegion checks the immutable region: its first entry points to a trailer, which is itself an
// index entry, ends the region's data, and has the number of the region's entries as a negative
// offset.
func (h *Header) readRegion() error {
	first := h.index[0]
	if first.Tag > TagHeaderImmutable || first.Tag < TagHeaderImage {
		return nil
	}
	end := int(first.Offset) + indexSize
	if first.Offset < 0 || end > len(h.store) {
		return malformed("the trailer of the region at %d", first.Offset)
	}
	var trailer place
	_, err := binary.Decode(h.store[first.Offset:], binary.BigEndian, &trailer)
	if err != nil {
		return err
	}
	size := -int64(trailer.Offset)
	trailer.Offset = first.Offset
	if first.Tag == TagHeaderSignatures && trailer.Tag == TagHeaderImage {
		trailer.Tag = first.Tag // rpm 4.0 writes this
	}
	want := place{first.Tag, TypeBinary, first.Offset, indexSize}
	if first != want || trailer != want || size <= 0 || size%indexSize != 0 ||
		size/indexSize > int64(len(h.index)) {
		return malformed("the region (%+v) or its trailer (%+v, of %d bytes)", first, trailer, size)
	}
	h.regionIndex = int(size / indexSize)
	h.regionData = end
	return nil
}

// readEntries finds the value of each entry. All values together cannot be longer than the data,
// because entries that overlap would make a small header expensive to read. Entries behind the
// region replace those inside of it.
func (h *Header) readEntries() error {
	used := 0
	for i, p := range h.index {
		if i == 0 && h.regionIndex > 0 {
			continue
		}
		in := h.store
		if i < h.regionIndex {
			in = in[:h.regionData-indexSize]
		}
		offset := int(p.Offset)
		if p.Tag < TagI18NTable || p.Type > TypeI18NString || p.Type == TypeNull || offset < 0 ||
			offset > len(in) || offset%alignment(p.Type) != 0 || p.Count == 0 || p.Count > maxStore {
			return malformed("entry %d: %+v", i, p)
		}
		length, ok := valueLength(in[offset:], p.Type, int(p.Count))
		if used += length; !ok || used > len(h.store) {
			return malformed("entry %d (tag %d): its value does not fit into the header", i, p.Tag)
		}
		_, known := h.entries[p.Tag]
		if known && (i < h.regionIndex || h.regionIndex == 0) {
			continue // a second one in the region: the first one counts
		}
		end := offset + length
		h.entries[p.Tag] = entry{p.Tag, p.Type, int(p.Count), in[offset:end:end]}
	}
	return nil
}

// valueLength returns the size of a value in bytes.
func valueLength(in []byte, kind Type, count int) (int, bool) {
	if kind == TypeString && count != 1 {
		return 0, false
	}
	if size := typeSizes[kind]; size > 0 {
		return size * count, size*count <= len(in)
	}
	length := 0
	for range count {
		n := bytes.IndexByte(in[length:], 0)
		if n < 0 {
			return length, false
		}
		length += n + 1
	}
	return length, true
}

// Bytes returns the header in the form that ParseHeader reads: the bytes that were parsed or that
// with encoded. They must not be changed.
func (h *Header) Bytes() []byte { return h.blob }

// Immutable reports whether the header has an immutable region, the part that signatures cover.
func (h *Header) Immutable() bool { return h.regionIndex > 0 }

// Has reports whether there is an entry with the tag.
func (h *Header) Has(tag Tag) bool {
	_, ok := h.entries[tag]
	return ok
}

// Texts returns the value of a text, an array of texts, or a translated text (the untranslated one
// first); nil for other types.
func (h *Header) Texts(tag Tag) []string {
	e := h.entries[tag]
	if typeSizes[e.kind] > 0 || e.count == 0 {
		return nil
	}
	all := make([]string, 0, e.count)
	for rest := e.data; len(all) < e.count; {
		n := bytes.IndexByte(rest, 0) // found: readEntries has checked it
		all = append(all, string(rest[:n]))
		rest = rest[n+1:]
	}
	return all
}

// Text returns the first of Texts, or "".
func (h *Header) Text(tag Tag) string {
	e := h.entries[tag]
	if typeSizes[e.kind] > 0 {
		return ""
	}
	text, _, _ := bytes.Cut(e.data, []byte{0})
	return string(text)
}

// Ints returns the value of an entry with numbers of any width or characters; nil for other types.
func (h *Header) Ints(tag Tag) []uint64 {
	e := h.entries[tag]
	size := typeSizes[e.kind]
	if size == 0 || e.kind == TypeBinary {
		return nil
	}
	all := make([]uint64, e.count)
	for i := range all {
		for _, b := range e.data[i*size : (i+1)*size] {
			all[i] = all[i]<<8 | uint64(b)
		}
	}
	return all
}

// Int returns the first of Ints; false if there is none.
func (h *Header) Int(tag Tag) (n uint64, ok bool) {
	all := h.Ints(tag)
	if len(all) == 0 {
		return 0, false
	}
	return all[0], true
}

// Binary returns the value of binary data or characters; nil for other types. It must not be
// changed.
func (h *Header) Binary(tag Tag) []byte {
	e := h.entries[tag]
	if typeSizes[e.kind] != 1 {
		return nil
	}
	return e.data
}
