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
	info := fmt.Sprintf("name=%s\x00vermagic=%s SMP mod_unload\x00license=NVIDIA\x00", name, release)
	if name != "nvidia_uvm" { // that of R470 has no version
		info += "version=" + version + "\x00"
	}
	return string(ModuleFile(info, nil, nil))
}

// ModuleFile returns a kernel module with this description, which offers symbols to others and needs symbols
// of others.
func ModuleFile(info string, exports, needs []string) []byte {
	symbols, text := make([]byte, 24), "\x00"
	for _, n := range needs {
		symbols = binary.LittleEndian.AppendUint32(symbols, uint32(len(text)))
		symbols = append(append(symbols, byte(elf.STB_GLOBAL)<<4), make([]byte, 19)...)
		text += n + "\x00"
	}
	names, at := "\x00", uint64(64)
	sections, contents := []elf.Section64{{}}, []byte(nil)
	add := func(name string, kind elf.SectionType, content []byte) {
		sections = append(sections, elf.Section64{Name: uint32(len(names)), Type: uint32(kind), Off: at, Size: uint64(len(content)), Addralign: 1})
		names, at, contents = names+name+"\x00", at+uint64(len(content)), append(contents, content...)
	}
	add(".modinfo", elf.SHT_PROGBITS, []byte(info))
	if len(exports)+len(needs) > 0 {
		add("__ksymtab_strings", elf.SHT_PROGBITS, []byte(strings.Join(exports, "\x00")+"\x00"))
		add(".symtab", elf.SHT_SYMTAB, symbols)
		add(".strtab", elf.SHT_STRTAB, []byte(text))
	}
	add(".shstrtab", elf.SHT_STRTAB, []byte(names+".shstrtab\x00"))
	h := elf.Header64{
		Type: uint16(elf.ET_REL), Machine: uint16(elf.EM_X86_64), Version: 1, Shoff: at, Ehsize: 64, Shentsize: 64, Shnum: uint16(len(sections)),
		Shstrndx: uint16(len(sections) - 1),
	}
	copy(h.Ident[:], elf.ELFMAG)
	h.Ident[elf.EI_CLASS], h.Ident[elf.EI_DATA], h.Ident[elf.EI_VERSION] = byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), 1
	var out bytes.Buffer
	for _, part := range []any{h, contents, sections} {
		_ = binary.Write(&out, binary.LittleEndian, part) // to memory
	}
	return out.Bytes()
}
