package kbuildtest

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"strings"
)

// Module returns a kernel module that consists only of its description.
func Module(name, version, release string) string {
	info := fmt.Sprintf(
		"name=%s\x00vermagic=%s SMP mod_unload\x00license=NVIDIA\x00",
		name,
		release,
	)
	if name != "nvidia_uvm" { // that of R470 has no version
		info += "version=" + version + "\x00"
	}
	return string(ModuleFile(info, nil, nil))
}

// ModuleFile returns a kernel module with this description, which offers symbols to others and
// needs symbols of others.
func ModuleFile(info string, exports, needs []string) []byte {
	symbols := make([]byte, 24)
	text := "\x00"
	for _, n := range needs {
		symbols = binary.LittleEndian.AppendUint32(symbols, uint32(len(text)))
		symbols = append(append(symbols, byte(elf.STB_GLOBAL)<<4), make([]byte, 19)...)
		text += n + "\x00"
	}
	sections := []Section{{".modinfo", elf.SHT_PROGBITS, 0, []byte(info)}}
	if len(exports)+len(needs) > 0 {
		sections = append(
			sections,
			Section{
				"__ksymtab_strings",
				elf.SHT_PROGBITS,
				0,
				[]byte(strings.Join(exports, "\x00") + "\x00"),
			},
			Section{
				".symtab",
				elf.SHT_SYMTAB,
				0,
				symbols,
			},
			Section{".strtab", elf.SHT_STRTAB, 0, []byte(text)},
		)
	}
	return ELF(elf.ET_REL, elf.EM_X86_64, nil, sections...)
}

// Section is a section of a file in ELF.
type Section struct {
	Name    string
	Type    elf.SectionType
	Link    uint32
	Content []byte
}

// ELF returns a file of 64 bits that consists of headers and sections, the last one with the names
// of all.
func ELF(kind elf.Type, machine elf.Machine, programs []elf.Prog64, sections ...Section) []byte {
	const headerSize, programSize, sectionSize = 64, 56, 64
	names := "\x00"
	at := uint64(headerSize + programSize*len(programs))
	table := []elf.Section64{{}}
	contents := []byte(nil)
	for _, s := range append(sections, Section{Name: ".shstrtab", Type: elf.SHT_STRTAB}) {
		name := uint32(len(names))
		if names += s.Name + "\x00"; s.Name == ".shstrtab" {
			s.Content = []byte(names)
		}
		size := uint64(len(s.Content))
		table = append(
			table,
			elf.Section64{
				Name:      name,
				Type:      uint32(s.Type),
				Link:      s.Link,
				Off:       at,
				Size:      size,
				Addralign: 1,
			},
		)
		at = at + size
		contents = append(contents, s.Content...)
	}
	h := elf.Header64{
		Type: uint16(
			kind,
		), Machine: uint16(machine), Version: 1, Shoff: at, Ehsize: headerSize, Shentsize: sectionSize,
		Shnum: uint16(len(table)), Shstrndx: uint16(len(table) - 1), Phnum: uint16(len(programs)),
	}
	if len(programs) > 0 {
		h.Phoff = headerSize
		h.Phentsize = programSize
	}
	copy(h.Ident[:], elf.ELFMAG)
	h.Ident[elf.EI_CLASS] = byte(elf.ELFCLASS64)
	h.Ident[elf.EI_DATA] = byte(elf.ELFDATA2LSB)
	h.Ident[elf.EI_VERSION] = 1
	var out bytes.Buffer
	for _, part := range []any{h, programs, contents, table} {
		_ = binary.Write(&out, binary.LittleEndian, part) // to memory
	}
	return out.Bytes()
}
