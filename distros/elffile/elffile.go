// Package elffile reads the few facts of ELF files that images and nodes need: kind, processor,
// soname, needed libraries, one section by its name. It reads files from archives that anyone may
// have made, so it replaces the reader of debug/elf, which decompresses sections and copies names
// without a bound: 2 MB of input made it use 5 GB.
//
// It allocates at most a few kilobytes and what the caller allows for a section, and reads each
// table once. It does not read symbols, relocations or the content of segments.
package elffile

import (
	"debug/elf" // constants and the widths of headers; its reader is not safe for such files
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
)

// Bounds of one file.
const (
	// entries of the section table; NVIDIA's binary objects have some thousands
	maxSections = 1 << 18
	maxSegments = 1 << 10 // entries of the program header table; libraries have about ten
	maxDynamic  = 1 << 12 // entries of the dynamic section; libraries have about 40
	maxNeeded   = 256     // libraries that a file needs; the largest programs need 60
	maxName     = 1 << 10 // bytes of a soname, of a needed library's name or of a section's name
)

var (
	// ErrMagic says that the file is not an ELF file at all, for example a script.
	ErrMagic = errors.New("not an ELF file")
	// ErrFormat says that the file begins like an ELF file, but is malformed, cut off or beyond the
	// bounds.
	ErrFormat = errors.New("malformed ELF file")
)

// Machine is the processor that a file is for; distros.Arch has those of drivers.
type Machine = elf.Machine

// I386 is the processor of 32-bit libraries on amd64.
const I386 Machine = elf.EM_386

// File is what an ELF file says about itself.
type File struct {
	Machine     Machine
	Bits        int      // 32 or 64
	Relocatable bool     // an object file or a kernel module, not a program or library
	Interp      bool     // it asks for a dynamic loader
	Soname      string   // "": none
	Needed      []string // the libraries that it needs, in their order

	in       io.ReaderAt
	size     int64
	sections table
	names    section // the string table with the names of sections
}

// widths are the fields of a structure: how many bytes each has in files of 64 bits.
// Fields of 8 bytes have 4 in files of 32 bits.
type widths []int

// The structures of a file. The fields that count here are numbered from 0.
var (
	// type, machine, version, entry, program headers, section headers, flags, size, and the sizes
	// and numbers of program headers and of section headers, the section with their names
	headerLayout  = widths{2, 2, 4, 8, 8, 8, 4, 2, 2, 2, 2, 2, 2}
	sectionLayout = widths{4, 4, 8, 8, 8, 8, 4} // name, type, flags, address, offset, size, link
	dynamicLayout = widths{8, 8}                // tag, value
	// type, flags, offset, addresses, size in the file; the flags of 32 bits come later
	segmentLayout = widths{4, 4, 8, 8, 8, 8}
)

// bytes returns the size of a structure.
func (f *File) bytes(l widths) (n int64) {
	for _, width := range l {
		n += int64(min(width, f.Bits/8))
	}
	return n
}

// read reads the fields of a structure.
func (f *File) read(off uint64, l widths) ([]uint64, error) {
	raw := make([]byte, f.bytes(l))
	if !f.within(off, uint64(len(raw))) {
		return nil, f.bad("a header of %d bytes at %d is outside of the file: it was cut off", len(raw), off)
	}
	_, err := f.in.ReadAt(raw, int64(off))
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	var fields []uint64
	for _, width := range l {
		var field [8]byte
		n := copy(field[:min(width, f.Bits/8)], raw)
		fields = append(fields, binary.LittleEndian.Uint64(field[:]))
		raw = raw[n:]
	}
	return fields, nil
}

// Read reads a little-endian ELF file of size bytes. Every segment and section must lie within the
// file, so that a file that was cut off is found. Errors wrap ErrMagic, ErrFormat or the error of
// in.
func Read(in io.ReaderAt, size int64) (*File, error) {
	f := &File{in: in, size: size}
	err := f.readIdent()
	if err != nil {
		return nil, err
	}
	h, err := f.read(elf.EI_NIDENT, headerLayout)
	if err != nil {
		return nil, err
	}
	f.Relocatable = elf.Type(h[0]) == elf.ET_REL
	f.Machine = Machine(h[1])
	f.sections = table{h[5], h[10], h[11]}
	f.names.link = h[12]
	err = f.readSegments(table{h[4], h[8], h[9]})
	if err != nil {
		return nil, err
	}
	err = f.readSections()
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (f *File) readIdent() error {
	var ident [elf.EI_NIDENT]byte
	_, err := f.in.ReadAt(ident[:min(f.size, elf.EI_NIDENT)], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if string(ident[:4]) != elf.ELFMAG {
		return fmt.Errorf("%w: it begins with % x", ErrMagic, ident[:4])
	}
	f.Bits = map[elf.Class]int{elf.ELFCLASS32: 32, elf.ELFCLASS64: 64}[elf.Class(ident[elf.EI_CLASS])]
	if elf.Data(ident[elf.EI_DATA]) != elf.ELFDATA2LSB || f.Bits == 0 {
		return f.bad("neither of 32 nor of 64 bits, or not little endian")
	}
	return nil
}

// table is the place of the program headers or of the section headers.
type table struct{ off, entry, count uint64 }

// entry reads one entry of a table; its size may be larger than that of the structure.
func (f *File) entry(t table, i uint64, l widths) ([]uint64, error) {
	if int64(t.entry) < f.bytes(l) || !f.within(t.off, t.entry*t.count) {
		return nil, f.bad("a table of %d entries of %d bytes is outside of the file: it was cut off", t.count, t.entry)
	}
	return f.read(t.off+i*t.entry, l)
}

// readSegments checks that all segments lie in the file, and finds out whether one names a dynamic
// loader.
func (f *File) readSegments(t table) error {
	if t.count > maxSegments {
		return f.bad("%d segments, at most %d are read", t.count, maxSegments)
	}
	l := segmentLayout
	if f.Bits == 32 {
		l = slices.Delete(slices.Clone(l), 1, 2)
	}
	for i := range t.count {
		p, err := f.entry(t, i, l)
		if err != nil {
			return err
		}
		p = append(p[:1], p[len(p)-4:]...)
		if !f.within(p[1], p[4]) {
			return f.bad("segment %d (%d bytes at %d) is outside of the file: it was cut off", i, p[4], p[1])
		}
		f.Interp = f.Interp || elf.ProgType(p[0]) == elf.PT_INTERP
	}
	return nil
}

func (f *File) within(off, length uint64) bool {
	return off <= uint64(f.size) && length <= uint64(f.size)-off
}

func (f *File) bad(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrFormat, fmt.Sprintf(format, args...))
}
