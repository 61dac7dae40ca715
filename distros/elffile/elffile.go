// Package elffile reads the few facts of ELF files that images and nodes need: kind, processor,
// soname, needed libraries, one section by its name. It reads files from archives that anyone may
// have made, so it replaces the reader of debug/elf, which decompresses sections and copies names
// without a bound: 2 MB of input made it use 5 GB.
//
// It allocates at most a few kilobytes and what the caller allows for a section, and reads each
// table once. It does not read symbols, relocations or the content of segments.
package elffile

import (
	"debug/elf" // constants and the layout of headers; its reader is not safe for such files
	"encoding/binary"
	"errors"
	"fmt"
	"io"
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

// Read reads a little-endian ELF file of size bytes. Every segment and section must lie within the
// file, so that a file that was cut off is found. Errors wrap ErrMagic, ErrFormat or the error of
// in.
func Read(in io.ReaderAt, size int64) (*File, error) {
	f := &File{in: in, size: size}
	segments, err := f.header()
	if err != nil {
		return nil, err
	}
	if err := f.readSegments(segments); err != nil {
		return nil, err
	}
	if err := f.readSections(); err != nil {
		return nil, err
	}
	return f, nil
}

// table is the place of the program headers or of the section headers.
type table struct{ off, entry, count int64 }

// header reads the file's header and returns the place of the program headers.
func (f *File) header() (segments table, err error) {
	var ident [elf.EI_NIDENT]byte
	if f.size < int64(len(ident)) {
		return segments, fmt.Errorf("%w: it has %d bytes", ErrMagic, f.size)
	}
	if _, err := f.in.ReadAt(ident[:], 0); err != nil {
		return segments, err
	}
	if string(ident[:4]) != elf.ELFMAG {
		return segments, fmt.Errorf("%w: it begins with % x", ErrMagic, ident[:4])
	}
	if order := elf.Data(ident[elf.EI_DATA]); order != elf.ELFDATA2LSB {
		return segments, f.bad("%s instead of little endian", order)
	}
	switch class := elf.Class(ident[elf.EI_CLASS]); class {
	case elf.ELFCLASS64:
		var h elf.Header64
		err = f.decode(0, &h)
		f.Bits = 64
		f.Machine = Machine(h.Machine)
		f.Relocatable = elf.Type(h.Type) == elf.ET_REL
		segments = table{int64(h.Phoff), int64(h.Phentsize), int64(h.Phnum)}
		f.sections = table{int64(h.Shoff), int64(h.Shentsize), int64(h.Shnum)}
		f.names.link = uint32(h.Shstrndx)
	case elf.ELFCLASS32:
		var h elf.Header32
		err = f.decode(0, &h)
		f.Bits = 32
		f.Machine = Machine(h.Machine)
		f.Relocatable = elf.Type(h.Type) == elf.ET_REL
		segments = table{int64(h.Phoff), int64(h.Phentsize), int64(h.Phnum)}
		f.sections = table{int64(h.Shoff), int64(h.Shentsize), int64(h.Shnum)}
		f.names.link = uint32(h.Shstrndx)
	default:
		return segments, f.bad("%s", class)
	}
	return segments, err
}

// readSegments checks that all segments lie in the file, and finds out whether one names a dynamic
// loader.
func (f *File) readSegments(t table) error {
	if t.count > maxSegments {
		return f.bad("%d segments, at most %d are read", t.count, maxSegments)
	}
	for i := range t.count {
		var kind uint32
		var off, length uint64
		if f.Bits == 64 {
			var p elf.Prog64
			if err := f.entry(t, i, &p); err != nil {
				return err
			}
			kind = p.Type
			off = p.Off
			length = p.Filesz
		} else {
			var p elf.Prog32
			if err := f.entry(t, i, &p); err != nil {
				return err
			}
			kind = p.Type
			off = uint64(p.Off)
			length = uint64(p.Filesz)
		}
		if !f.within(off, length) {
			return f.bad(
				"segment %d (%d bytes at %d) is outside of the file, which has %d bytes: it was cut off",
				i,
				length,
				off,
				f.size,
			)
		}
		f.Interp = f.Interp || elf.ProgType(kind) == elf.PT_INTERP
	}
	return nil
}

// decode reads a structure of fixed size at a place of the file.
func (f *File) decode(off int64, v any) error {
	n := int64(binary.Size(v))
	if !f.within(uint64(off), uint64(n)) {
		return f.bad(
			"a header of %d bytes at %d is outside of the file, which has %d bytes: it was cut off",
			n,
			off,
			f.size,
		)
	}
	return binary.Read(io.NewSectionReader(f.in, off, n), binary.LittleEndian, v)
}

// entry reads one entry of a table; its size may be larger than that of the structure.
func (f *File) entry(t table, i int64, v any) error {
	if n := int64(binary.Size(v)); t.entry < n {
		return f.bad("table entries of %d bytes instead of %d", t.entry, n)
	}
	if !f.within(uint64(t.off), uint64(t.entry)*uint64(t.count)) {
		return f.bad(
			"a table of %d entries at %d is outside of the file, which has %d bytes: it was cut off",
			t.count,
			t.off,
			f.size,
		)
	}
	return f.decode(t.off+i*t.entry, v)
}

func (f *File) within(off, length uint64) bool {
	return off <= uint64(f.size) && length <= uint64(f.size)-off
}

func (f *File) bad(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrFormat, fmt.Sprintf(format, args...))
}
