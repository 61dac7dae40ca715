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
	indexSize = 16 // one entry: tag, type, offset, count
)

// Header is the metadata of a package, as stored in a .rpm file and in rpm's database: typed
// entries by tag. It does not change after it was made. The zero Header has no entries.
type Header struct {
	blob []byte
	// regionIndex and regionData are the sizes of the immutable region, which is the part that is
	// signed, in the index and in the data. They are 0 if there is no region.
	regionIndex, regionData int
	entries                 []entry
	byTag                   map[Tag]int // the index in entries of the valid one
}

// entry is the location of a value.
type entry struct {
	tag   Tag
	kind  Type
	count int
	data  []byte // a part of the header's blob
}

// ParseHeader reads a header in the form of the database: the number of entries, the size of the
// data, the index, the data, and nothing after that. The Header refers to blob, which must not
// change any more. Errors are ErrFormat.
func ParseHeader(blob []byte) (*Header, error) {
	h := &Header{blob: blob, byTag: map[Tag]int{}}
	if len(blob) < introSize {
		return nil, fmt.Errorf(
			"header: %w: %d bytes, want at least %d",
			ErrFormat,
			len(blob),
			introSize,
		)
	}
	count := binary.BigEndian.Uint32(blob)
	size := binary.BigEndian.Uint32(blob[4:])
	if err := checkSizes(count, size); err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	if want := introSize + int(count)*indexSize + int(size); len(blob) != want {
		return nil, fmt.Errorf(
			"header: %w: %d bytes, its first words say %d",
			ErrFormat,
			len(blob),
			want,
		)
	}
	if err := h.readRegion(int(count)); err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	if err := h.readEntries(int(count)); err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	return h, nil
}

func checkSizes(count, size uint32) error {
	if count == 0 || count > maxIndex {
		return fmt.Errorf("%w: %d entries, want 1 to %d", ErrFormat, count, maxIndex)
	}
	if size > maxStore {
		return fmt.Errorf("%w: %d bytes of data, want at most %d", ErrFormat, size, maxStore)
	}
	return nil
}

// index returns one entry of the index as it is written.
func (h *Header) index(i int) (tag Tag, kind Type, offset int32, count uint32) {
	b := h.blob[introSize+i*indexSize:]
	return Tag(
			binary.BigEndian.Uint32(b),
		), Type(
			binary.BigEndian.Uint32(b[4:]),
		), int32(
			binary.BigEndian.Uint32(b[8:]),
		), binary.BigEndian.Uint32(
			b[12:],
		)
}

func (h *Header) store() []byte {
	return h.blob[introSize+h.count()*indexSize:]
}

// readRegion checks the immutable region: its first entry points to a trailer, which is itself an
// index entry, ends the region's data, and has the number of the region's entries as a negative
// offset.
func (h *Header) readRegion(total int) error {
	tag, kind, offset, count := h.index(0)
	if !isRegion(tag) {
		return nil
	}
	store := h.store()
	if kind != TypeBinary || count != indexSize || offset < 0 ||
		int(offset) > len(store)-indexSize {
		return fmt.Errorf(
			"%w: the entry of the region (tag %d, type %d, offset %d, count %d)",
			ErrFormat,
			tag,
			kind,
			offset,
			count,
		)
	}
	trailer := store[offset:]
	endTag := Tag(binary.BigEndian.Uint32(trailer))
	endKind := Type(binary.BigEndian.Uint32(trailer[4:]))
	size := -int64(int32(binary.BigEndian.Uint32(trailer[8:])))
	endCount := binary.BigEndian.Uint32(trailer[12:])
	// rpm 4.0 writes this
	sameTag := endTag == tag || tag == TagHeaderSignatures && endTag == TagHeaderImage
	if !sameTag || endKind != TypeBinary || endCount != indexSize || size <= 0 ||
		size%indexSize != 0 ||
		size/indexSize > int64(total) {
		return fmt.Errorf(
			"%w: the trailer of the region (tag %d, type %d, size %d, count %d)",
			ErrFormat,
			endTag,
			endKind,
			size,
			endCount,
		)
	}
	h.regionIndex = int(size / indexSize)
	h.regionData = int(offset) + indexSize
	return nil
}

func isRegion(t Tag) bool {
	return t == TagHeaderImmutable || t == TagHeaderSignatures || t == TagHeaderImage
}

// readEntries finds the value of each entry. All values together cannot be longer than the data,
// because entries that overlap would make a small header expensive to read. Entries behind the
// region replace those inside of it.
func (h *Header) readEntries(total int) error {
	store := h.store()
	used := 0
	for i := range total {
		if i == 0 && h.regionIndex > 0 {
			continue
		}
		tag, kind, offset, count := h.index(i)
		in := store
		if i < h.regionIndex {
			in = store[:h.regionData-indexSize]
		}
		if tag < TagI18NTable || kind > TypeI18NString || kind == TypeNull {
			return fmt.Errorf("%w: entry %d has tag %d and type %d", ErrFormat, i, tag, kind)
		}
		if offset < 0 || int(offset) > len(in) || int(offset)%alignment(kind) != 0 || count == 0 ||
			int64(count) > maxStore {
			return fmt.Errorf(
				"%w: entry %d (tag %d): offset %d, count %d",
				ErrFormat,
				i,
				tag,
				offset,
				count,
			)
		}
		length, ok := valueLength(in[offset:], kind, int(count))
		if used += length; !ok || used > len(store) {
			return fmt.Errorf(
				"%w: entry %d (tag %d): its value does not fit into the header",
				ErrFormat,
				i,
				tag,
			)
		}
		at, known := h.byTag[tag]
		e := entry{tag, kind, int(count), in[offset : int(offset)+length : int(offset)+length]}
		switch {
		case !known:
			h.byTag[tag] = len(h.entries)
			h.entries = append(h.entries, e)
		case i >= h.regionIndex && h.regionIndex > 0:
			h.entries[at] = e
		} // otherwise it is a second one in the region: the first one counts
	}
	return nil
}

// valueLength returns the size of a value in bytes.
func valueLength(in []byte, kind Type, count int) (int, bool) {
	if kind == TypeString && count != 1 {
		return 0, false
	}
	if size := typeSize(kind); size > 0 {
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
	_, ok := h.byTag[tag]
	return ok
}

func (h *Header) get(tag Tag) (entry, bool) {
	i, ok := h.byTag[tag]
	if !ok {
		return entry{}, false
	}
	return h.entries[i], true
}

// Texts returns the value of a text, an array of texts, or a translated text (the untranslated one
// first); nil for other types.
func (h *Header) Texts(tag Tag) []string {
	e, ok := h.get(tag)
	if !ok || typeSize(e.kind) > 0 {
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
	e, ok := h.get(tag)
	if !ok || typeSize(e.kind) > 0 {
		return ""
	}
	return string(e.data[:bytes.IndexByte(e.data, 0)])
}

// Ints returns the value of an entry with numbers of any width or characters; nil for other types.
func (h *Header) Ints(tag Tag) []uint64 {
	e, ok := h.get(tag)
	size := typeSize(e.kind)
	if !ok || size == 0 || e.kind == TypeBinary {
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
	if e, ok := h.get(tag); ok && typeSize(e.kind) == 1 {
		return e.data
	}
	return nil
}
