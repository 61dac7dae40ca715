package elffile

import (
	"bytes"
	"cmp"
	"debug/elf"
	"errors"
	"io"
)

// ErrNoSection says that the file has no section of that name.
var ErrNoSection = errors.New("no such section")

// section is an entry of the section table.
type section struct{ name, kind, flags, off, size, link uint64 }

// readSections checks that all sections lie in the file, and reads the dynamic section.
func (f *File) readSections() error {
	t := &f.sections
	if t.off == 0 {
		t.count = 0
		return nil
	}
	if t.count == 0 || f.names.link == uint64(elf.SHN_XINDEX) {
		// the numbers that do not fit into the header are in the first section
		s, err := f.section(table{t.off, t.entry, 1}, 0)
		if err != nil {
			return err
		}
		if t.count == 0 {
			t.count = s.size
		}
		if f.names.link == uint64(elf.SHN_XINDEX) {
			f.names.link = s.link
		}
	}
	if t.count > maxSections {
		return f.bad("%d sections, at most %d are read", t.count, maxSections)
	}
	var dynamic *section
	strings := f.names.link
	err := f.each(func(i uint64, s section) (bool, error) {
		if elf.SectionType(s.kind) != elf.SHT_NOBITS && !f.within(s.off, s.size) {
			return false, f.bad("section %d (%d bytes at %d) is outside of the file: it was cut off", i, s.size, s.off)
		}
		if i == strings {
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

// each passes the sections to visit until it returns false.
func (f *File) each(visit func(i uint64, s section) (bool, error)) error {
	for i := range f.sections.count {
		s, err := f.section(f.sections, i)
		if err != nil {
			return err
		}
		more, err := visit(i, s)
		if err != nil || !more {
			return err
		}
	}
	return nil
}

func (f *File) section(t table, i uint64) (s section, err error) {
	h, err := f.entry(t, i, sectionLayout)
	if err != nil {
		return s, err
	}
	return section{h[0], h[1], h[2], h[4], h[5], h[6]}, nil
}

// readDynamic reads the soname and the needed libraries.
func (f *File) readDynamic(d section) error {
	width := uint64(f.bytes(dynamicLayout))
	if d.size/width > maxDynamic {
		return f.bad("%d entries of the dynamic section, at most %d are read", d.size/width, maxDynamic)
	}
	names, err := f.section(f.sections, d.link)
	if d.link >= f.sections.count || err != nil {
		return f.bad("the dynamic section has no string table")
	}
	for i := range d.size / width {
		entry, err := f.read(d.off+i*width, dynamicLayout)
		if err != nil {
			return err
		}
		tag := elf.DynTag(entry[0])
		if tag == elf.DT_NULL {
			return nil
		}
		if tag != elf.DT_SONAME && tag != elf.DT_NEEDED {
			continue
		}
		name, err := f.text(names, entry[1])
		if err != nil {
			return err
		}
		if tag == elf.DT_SONAME {
			f.Soname = name
			continue
		}
		if len(f.Needed) == maxNeeded {
			return f.bad("it needs more than %d libraries", maxNeeded)
		}
		f.Needed = append(f.Needed, name)
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
	err = f.each(func(_ uint64, s section) (bool, error) {
		same, err := f.named(s, name)
		if err != nil {
			return false, err
		}
		if !same {
			return true, nil
		}
		switch {
		case elf.SectionFlag(s.flags)&elf.SHF_COMPRESSED != 0 || elf.SectionType(s.kind) == elf.SHT_NOBITS:
			return false, f.bad("its section %s has no plain content", name)
		case s.size > limit:
			return false, f.bad("its section %s has %d bytes, more than %d", name, s.size, limit)
		}
		content = make([]byte, s.size)
		found = nil
		_, err = f.in.ReadAt(content, int64(s.off))
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return false, err
	})
	return content, cmp.Or(err, found)
}

// named compares a section's name without reading more of it than the name that is wanted.
func (f *File) named(s section, want string) (bool, error) {
	if s.name+uint64(len(want)) >= f.names.size {
		return false, nil
	}
	buf := make([]byte, len(want)+1)
	if _, err := f.in.ReadAt(buf, int64(f.names.off+s.name)); err != nil &&
		!errors.Is(err, io.EOF) {
		return false, err
	}
	return string(buf) == want+"\x00", nil
}
