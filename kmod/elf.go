package kmod

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
)

// The few fields of ELF that this package needs, instead of debug/elf, which adds DWARF and more to a program
// that must stay small. Kernel modules are relocatable files; the supported kernels (amd64, arm64) are 64 bit
// and little endian.
const (
	elfHeaderSize  = 64
	elfSectionSize = 64
	elfRelocatable = 1
	elfNoBits      = 8      // a section without content in the file
	elfExtended    = 0xffff // SHN_XINDEX: section 0 holds the number
	maxSections    = 1 << 18
	maxNames       = 16 << 20
)

func badELF(why string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrFormat, fmt.Sprintf(why, args...))
}

type elfSection struct {
	name         uint32
	kind         uint32
	offset, size uint64
	link         uint32
}

func parseSection(b []byte) elfSection {
	le := binary.LittleEndian
	return elfSection{name: le.Uint32(b), kind: le.Uint32(b[4:]), offset: le.Uint64(b[24:]), size: le.Uint64(b[32:]), link: le.Uint32(b[40:])}
}

// content reads a section, which must lie inside the file and have at most limit bytes.
func (s elfSection) content(data io.ReaderAt, size int64, limit uint64) ([]byte, error) {
	if s.kind == elfNoBits || s.size > limit || s.offset > uint64(size) || s.size > uint64(size)-s.offset {
		return nil, badELF("a section of %d bytes at %d does not fit", s.size, s.offset)
	}
	b := make([]byte, s.size)
	if _, err := io.ReadFull(io.NewSectionReader(data, int64(s.offset), int64(s.size)), b); err != nil {
		return nil, badELF("read a section: %v", err)
	}
	return b, nil
}

// section returns the content of one section of a relocatable file, found by name.
func section(data io.ReaderAt, size int64, name string, limit uint64) ([]byte, error) {
	table, count, names, err := sectionTable(data, size)
	if err != nil {
		return nil, err
	}
	want := append([]byte(name), 0)
	const batch = 256
	buf := make([]byte, batch*elfSectionSize)
	for first := uint64(0); first < count; first += batch {
		part := buf[:min(batch, count-first)*elfSectionSize]
		if _, err := io.ReadFull(io.NewSectionReader(data, int64(table+first*elfSectionSize), int64(len(part))), part); err != nil {
			return nil, badELF("read the section table: %v", err)
		}
		for ; len(part) > 0; part = part[elfSectionSize:] {
			s := parseSection(part)
			if uint64(s.name) < uint64(len(names)) && bytes.HasPrefix(names[s.name:], want) {
				return s.content(data, size, limit)
			}
		}
	}
	return nil, badELF("it has no section %s", name)
}

// sectionTable reads the header and returns the offset of the section table, the number of sections, and
// their names.
func sectionTable(data io.ReaderAt, size int64) (table, count uint64, names []byte, err error) {
	le := binary.LittleEndian
	h := make([]byte, elfHeaderSize)
	if _, err := io.ReadFull(io.NewSectionReader(data, 0, elfHeaderSize), h); err != nil || !bytes.HasPrefix(h, []byte("\x7fELF\x02\x01")) {
		return 0, 0, nil, badELF("it does not begin as a 64 bit ELF file")
	}
	if kind := le.Uint16(h[16:]); kind != elfRelocatable {
		return 0, 0, nil, badELF("an ELF file of kind %d, not a relocatable one", kind)
	}
	table, count = le.Uint64(h[40:]), uint64(le.Uint16(h[60:]))
	index := uint64(le.Uint16(h[62:]))
	if le.Uint16(h[58:]) != elfSectionSize || table == 0 || table > uint64(size) || uint64(size)-table < elfSectionSize {
		return 0, 0, nil, badELF("no table of sections; the file is cut off or stripped of it")
	}
	at := func(i uint64) (elfSection, error) {
		b := make([]byte, elfSectionSize)
		if _, err := io.ReadFull(io.NewSectionReader(data, int64(table+i*elfSectionSize), elfSectionSize), b); err != nil {
			return elfSection{}, badELF("read the section table: %v", err)
		}
		return parseSection(b), nil
	}
	if count == 0 || index == elfExtended { // more sections than 16 bits can count: section 0 has the number
		zero, err := at(0)
		if err != nil {
			return 0, 0, nil, err
		}
		if count == 0 {
			count = zero.size
		}
		if index == elfExtended {
			index = uint64(zero.link)
		}
	}
	if count > maxSections || count*elfSectionSize > uint64(size)-table || index >= count {
		return 0, 0, nil, badELF("a table of %d sections does not fit", count)
	}
	s, err := at(index)
	if err != nil {
		return 0, 0, nil, err
	}
	names, err = s.content(data, size, maxNames)
	return table, count, names, err
}
