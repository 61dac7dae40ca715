package kmod

import (
	"debug/elf"
	"fmt"
	"io"
)

// section reads one section of a relocatable file, at most limit bytes of it. Kernel modules are relocatable
// files; the kernels we serve (amd64, arm64) are 64 bit and little endian.
func section(data io.ReaderAt, name string, limit uint64) ([]byte, error) {
	f, err := elf.NewFile(data)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	if f.Type != elf.ET_REL || f.Class != elf.ELFCLASS64 || f.Data != elf.ELFDATA2LSB {
		return nil, fmt.Errorf("%w: an ELF file of kind %s, %s, %s, not a relocatable one of 64 bits, little endian", ErrFormat, f.Type, f.Class, f.Data)
	}
	s := f.Section(name)
	switch {
	case s == nil:
		return nil, fmt.Errorf("%w: it has no section %s", ErrFormat, name)
	case s.Size > limit:
		return nil, fmt.Errorf("%w: its section %s has %d bytes, more than %d", ErrFormat, name, s.Size, limit)
	}
	text, err := s.Data()
	if err != nil {
		return nil, fmt.Errorf("%w: read the section %s: %w", ErrFormat, name, err)
	}
	return text, nil
}
