package elffile

import (
	"bufio"
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"io"
)

// ErrNoSection says that the file has no section of that name.
var ErrNoSection = errors.New("no such section")

// section is an entry of the section table; the same for both classes.
type section struct {
	name, kind, link uint32
	flags            uint64
	off, size        uint64
}

// readSections checks that all sections lie in the file, and reads the dynamic section.
func (f *File) readSections() error {
	if f.sections.off == 0 {
		f.sections.count = 0
		return nil
	}
	if f.sections.count == 0 || f.names.link == uint32(elf.SHN_XINDEX) {
		if err := f.manySections(); err != nil {
			return err
		}
	}
	if f.sections.count > maxSections {
		return f.bad("%d sections, at most %d are read", f.sections.count, maxSections)
	}
	var dynamic *section
	strings := f.names.link
	err := f.each(func(i int64, s section) (bool, error) {
		if elf.SectionType(s.kind) != elf.SHT_NOBITS && !f.within(s.off, s.size) {
			return false, f.bad(
				"section %d (%d bytes at %d) is outside of the file, which has %d bytes: it was cut off",
				i,
				s.size,
				s.off,
				f.size,
			)
		}
		if i == int64(strings) {
			f.names = s
		}
		if dynamic == nil && elf.SectionType(s.kind) == elf.SHT_DYNAMIC {
			dynamic = &s
		}
		return true, nil
	})
	if err != nil || dynamic == nil {
		return err
	}
	return f.readDynamic(*dynamic)
}

// manySections reads the numbers that do not fit into the header from the first section.
func (f *File) manySections() error {
	first := table{f.sections.off, f.sections.entry, 1}
	s, err := f.section(first, 0)
	if err != nil {
		return err
	}
	if f.sections.count == 0 {
		f.sections.count = int64(min(s.size, maxSections+1))
	}
	if f.names.link == uint32(elf.SHN_XINDEX) {
		f.names.link = s.link
	}
	return nil
}

// each passes the sections to visit until it returns false. It reads the table in one pass.
func (f *File) each(visit func(i int64, s section) (bool, error)) error {
	t := f.sections
	if !f.within(uint64(t.off), uint64(t.entry)*uint64(t.count)) {
		return f.bad(
			"the table of %d sections is outside of the file, which has %d bytes: it was cut off",
			t.count,
			f.size,
		)
	}
	for i := range t.count {
		s, err := f.section(t, i)
		if err != nil {
			return err
		}
		if more, err := visit(i, s); err != nil || !more {
			return err
		}
	}
	return nil
}

func (f *File) section(t table, i int64) (section, error) {
	if f.Bits == 64 {
		var h elf.Section64
		err := f.entry(t, i, &h)
		return section{h.Name, h.Type, h.Link, h.Flags, h.Off, h.Size}, err
	}
	var h elf.Section32
	err := f.entry(t, i, &h)
	return section{h.Name, h.Type, h.Link, uint64(h.Flags), uint64(h.Off), uint64(h.Size)}, err
}

// readDynamic reads the soname and the needed libraries.
func (f *File) readDynamic(d section) error {
	width := uint64(8)
	if f.Bits == 64 {
		width = 16
	}
	if d.size/width > maxDynamic {
		return f.bad(
			"%d entries of the dynamic section, at most %d are read",
			d.size/width,
			maxDynamic,
		)
	}
	names, err := f.section(f.sections, int64(d.link))
	if int64(d.link) >= f.sections.count || err != nil {
		return f.bad("the dynamic section has no string table")
	}
	in := bufio.NewReaderSize(io.NewSectionReader(f.in, int64(d.off), int64(d.size)), 4096)
	for range d.size / width {
		entry := make([]byte, width)
		if _, err := io.ReadFull(in, entry); err != nil {
			return err
		}
		tag := binary.LittleEndian.Uint64(entry)
		value := uint64(0)
		if width == 16 {
			value = binary.LittleEndian.Uint64(entry[8:])
		} else {
			tag, value = uint64(binary.LittleEndian.Uint32(entry)), uint64(binary.LittleEndian.Uint32(entry[4:]))
		}
		switch elf.DynTag(tag) {
		case elf.DT_NULL:
			return nil
		case elf.DT_SONAME:
			f.Soname, err = f.text(names, value)
		case elf.DT_NEEDED:
			if len(f.Needed) == maxNeeded {
				return f.bad("it needs more than %d libraries", maxNeeded)
			}
			var name string
			name, err = f.text(names, value)
			f.Needed = append(f.Needed, name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// text reads a string of a string table.
func (f *File) text(t section, off uint64) (string, error) {
	if elf.SectionType(t.kind) != elf.SHT_STRTAB || off >= t.size {
		return "", f.bad("a string at %d of a string table of %d bytes", off, t.size)
	}
	buf := make([]byte, min(t.size-off, maxName+1))
	if _, err := f.in.ReadAt(buf, int64(t.off+off)); err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	text, _, ended := bytes.Cut(buf, []byte{0})
	if !ended {
		return "", f.bad("a string that does not end within %d bytes", len(buf))
	}
	return string(text), nil
}

// Section returns the content of the first section of a name, at most limit bytes. A compressed one
// is ErrFormat: the kernel and the dynamic loader do not decompress either. Other errors wrap
// ErrFormat, ErrNoSection or the error of the reader.
func (f *File) Section(name string, limit uint64) (content []byte, err error) {
	found := ErrNoSection
	err = f.each(func(_ int64, s section) (bool, error) {
		if same, err := f.named(s, name); err != nil || !same {
			return err == nil, err
		}
		switch {
		case elf.SectionFlag(s.flags)&elf.SHF_COMPRESSED != 0 || elf.SectionType(s.kind) == elf.SHT_NOBITS:
			return false, f.bad("its section %s has no plain content", name)
		case s.size > limit:
			return false, f.bad("its section %s has %d bytes, more than %d", name, s.size, limit)
		}
		content = make([]byte, s.size)
		found = nil
		_, err := f.in.ReadAt(content, int64(s.off))
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return false, err
	})
	return content, errors.Join(err, found)
}

// named compares a section's name without reading more of it than the name that is wanted.
func (f *File) named(s section, want string) (bool, error) {
	if uint64(s.name)+uint64(len(want)) >= f.names.size {
		return false, nil
	}
	buf := make([]byte, len(want)+1)
	if _, err := f.in.ReadAt(buf, int64(f.names.off)+int64(s.name)); err != nil &&
		!errors.Is(err, io.EOF) {
		return false, err
	}
	return string(buf) == want+"\x00", nil
}
