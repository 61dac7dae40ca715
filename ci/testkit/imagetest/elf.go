package imagetest

import (
	"bytes"
	"debug/elf"
	"encoding/binary"

	"github.com/driver-container/driver-container/ci/testkit/repotest"
)

// ELF describes a file that consists of headers: enough for code that reads what a library is and needs.
type ELF struct {
	Soname  string
	Needed  []string
	Arch    string // amd64, arm64 or i386
	Static  bool   // a program without dynamic section
	Program bool   // it asks for a dynamic loader, unless Static
	Note    string // bytes that make two files different
}

func (e ELF) machine() elf.Machine {
	switch e.Arch {
	case "arm64":
		return elf.EM_AARCH64
	case "i386":
		return elf.EM_386
	default:
		return elf.EM_X86_64
	}
}

// Bytes returns the file: header, program header, string table, dynamic section, section names, sections.
func (e ELF) Bytes() []byte {
	const headerSize, progSize = 64, 56
	names := "\x00.dynstr\x00.dynamic\x00.shstrtab\x00"
	strings := []byte("\x00")
	var dynamic bytes.Buffer
	entry := func(tag elf.DynTag, s string) {
		put(&dynamic, elf.Dyn64{Tag: int64(tag), Val: uint64(len(strings))})
		strings = append(append(strings, s...), 0)
	}
	if e.Soname != "" {
		entry(elf.DT_SONAME, e.Soname)
	}
	for _, n := range e.Needed {
		entry(elf.DT_NEEDED, n)
	}
	put(&dynamic, elf.Dyn64{})
	prog := elf.Prog64{Type: uint32(elf.PT_LOAD), Off: headerSize + progSize, Filesz: uint64(len(strings)), Memsz: uint64(len(strings)), Align: 1}
	if e.Program && !e.Static {
		prog.Type = uint32(elf.PT_INTERP)
	}
	at := uint64(headerSize + progSize)
	section := func(name uint32, typ elf.SectionType, link uint32, size int) elf.Section64 {
		s := elf.Section64{Name: name, Type: uint32(typ), Link: link, Off: at, Size: uint64(size), Addralign: 1}
		at += uint64(size)
		return s
	}
	sections := []elf.Section64{{}, section(1, elf.SHT_STRTAB, 0, len(strings))}
	typ := elf.SHT_DYNAMIC
	if e.Static {
		typ = elf.SHT_PROGBITS
	}
	sections = append(sections, section(9, typ, 1, dynamic.Len()), section(18, elf.SHT_STRTAB, 0, len(names)))
	h := elf.Header64{
		Type: uint16(elf.ET_DYN), Machine: uint16(e.machine()), Version: 1, Phoff: headerSize, Shoff: at, Ehsize: headerSize,
		Phentsize: progSize, Phnum: 1, Shentsize: 64, Shnum: uint16(len(sections)), Shstrndx: 3,
	}
	copy(h.Ident[:], elf.ELFMAG)
	h.Ident[elf.EI_CLASS], h.Ident[elf.EI_DATA], h.Ident[elf.EI_VERSION] = byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), 1
	var out bytes.Buffer
	put(&out, h)
	put(&out, prog)
	out.Write(strings)
	out.Write(dynamic.Bytes())
	out.WriteString(names)
	put(&out, sections)
	out.WriteString(e.Note)
	return out.Bytes()
}

// program returns a program that needs the C library, and others.
func program(name, arch, note string, needed ...string) repotest.File {
	return repotest.File{Name: name, Mode: 0o755, Body: string(ELF{Arch: arch, Program: true, Needed: append(needed, "libc.so.6"), Note: note}.Bytes())}
}

// library returns a shared library.
func library(name, arch, soname, note string, needed ...string) repotest.File {
	return repotest.File{Name: name, Body: string(ELF{Soname: soname, Needed: needed, Arch: arch, Note: note}.Bytes())}
}

// put writes values of fixed size to memory; neither can fail.
func put(b *bytes.Buffer, v any) { _ = binary.Write(b, binary.LittleEndian, v) }
