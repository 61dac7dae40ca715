package imagetest

import (
	"cmp"
	"debug/elf"
	"encoding/binary"

	"github.com/driver-container/driver-container/ci/testkit/kbuildtest"
	"github.com/driver-container/driver-container/ci/testkit/repotest"
)

// ELF describes a file that consists of headers: enough for code that reads what a library is and
// needs.
type ELF struct {
	Soname  string
	Needed  []string
	Arch    string // amd64, arm64 or i386
	Static  bool   // a program without dynamic section
	Program bool   // it asks for a dynamic loader, unless Static
	Note    string // bytes that make two files different
}

// machines are the types of the architectures.
var machines = map[string]elf.Machine{
	"amd64": elf.EM_X86_64,
	"arm64": elf.EM_AARCH64,
	"i386":  elf.EM_386,
}

// Bytes returns the file: header, program header, string table, dynamic section, section names,
// sections.
func (e ELF) Bytes() []byte {
	strings := []byte("\x00")
	var dynamic []byte
	entry := func(tag elf.DynTag, s string) {
		dynamic = binary.LittleEndian.AppendUint64(dynamic, uint64(tag))
		dynamic = binary.LittleEndian.AppendUint64(dynamic, uint64(len(strings)))
		strings = append(append(strings, s...), 0)
	}
	if e.Soname != "" {
		entry(elf.DT_SONAME, e.Soname)
	}
	for _, n := range e.Needed {
		entry(elf.DT_NEEDED, n)
	}
	dynamic = append(dynamic, make([]byte, 16)...)
	prog := elf.Prog64{
		Type:   uint32(elf.PT_LOAD),
		Off:    120,
		Filesz: uint64(len(strings)),
		Memsz:  uint64(len(strings)),
		Align:  1,
	}
	if e.Program && !e.Static {
		prog.Type = uint32(elf.PT_INTERP)
	}
	typ := elf.SHT_DYNAMIC
	if e.Static {
		typ = elf.SHT_PROGBITS
	}
	file := kbuildtest.ELF(elf.ET_DYN, cmp.Or(machines[e.Arch], elf.EM_X86_64), []elf.Prog64{prog},
		kbuildtest.Section{Name: ".dynstr", Type: elf.SHT_STRTAB, Content: strings},
		kbuildtest.Section{Name: ".dynamic", Type: typ, Link: 1, Content: dynamic})
	return append(file, e.Note...)
}

// text returns a file with a body, with the usual mode.
func text(name, body string) repotest.File { return repotest.File{Name: name, Body: body} }
