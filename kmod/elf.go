package kmod

import (
	"errors"
	"fmt"
	"io"

	"github.com/driver-container/driver-container/distros/elffile"
)

// section reads one section of a relocatable file, at most limit bytes of it. Kernel modules are relocatable
// files; the kernels we serve (amd64, arm64) are 64 bit and little endian.
func section(data io.ReaderAt, size int64, name string, limit uint64) ([]byte, error) {
	f, err := elffile.Read(data, size)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	if !f.Relocatable || f.Bits != 64 {
		return nil, fmt.Errorf("%w: an ELF file of %d bits (relocatable: %t), not a relocatable one of 64 bits", ErrFormat, f.Bits, f.Relocatable)
	}
	text, err := f.Section(name, limit)
	switch {
	case errors.Is(err, elffile.ErrNoSection):
		return nil, fmt.Errorf("%w: it has no section %s", ErrFormat, name)
	case err != nil:
		return nil, fmt.Errorf("%w: read the section %s: %w", ErrFormat, name, err)
	}
	return text, nil
}
