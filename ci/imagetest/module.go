package imagetest

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/driver-container/driver-container/ci/debtest"
	"github.com/driver-container/driver-container/ci/repotest"
)

// Module is a kernel module that consists of its description: enough for code that reads the description, and
// for signing.
func Module(name, version, release string) []byte {
	return LinkedModule(name, version, release, nil, nil)
}

// LinkedModule is a Module that offers symbols to others and needs symbols of others. modinfo is more of what
// it says of itself: "depends=nvidia".
func LinkedModule(name, version, release string, exports, needs []string, modinfo ...string) []byte {
	info := fmt.Sprintf("name=%s\x00version=%s\x00license=NVIDIA\x00srcversion=AC415F9243EB439A4D6B17F\x00vermagic=%s SMP mod_unload \x00", name, version, release)
	if len(modinfo) > 0 {
		info += strings.Join(modinfo, "\x00") + "\x00"
	}
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
	put(&out, h)
	out.Write(contents)
	put(&out, sections)
	return out.Bytes()
}

// The kernels of debian12 in a world, newest first.
const (
	Kernel      = "6.1.0-56-amd64"
	CloudKernel = "6.1.0-56-cloud-amd64"
	OldKernel   = "6.1.0-9-amd64"
)

// kernels makes the packages of debian12's kernels.
func kernels() []debtest.Package {
	pack := func(name, arch, fields string, files ...repotest.File) debtest.Package {
		return debtest.Package{
			Control: fmt.Sprintf("Package: %s\nVersion: 6.1.192-2\nArchitecture: %s\n%sDescription: %[1]s for tests", name, arch, fields), Files: files,
		}
	}
	list := []debtest.Package{pack("linux-kbuild-6.1", "amd64", "Depends: libc6\n", repotest.File{Name: "usr/lib/linux-kbuild-6.1/scripts/mod/modpost", Body: "program", Mode: 0o755})}
	for _, release := range []string{Kernel, CloudKernel, OldKernel} {
		list = append(list, pack("linux-image-"+release, "amd64", "", repotest.File{Name: "boot/vmlinuz-" + release, Body: "kernel"}),
			pack("linux-headers-"+release, "amd64", "Depends: linux-kbuild-6.1, gcc-12\n",
				repotest.File{Name: "usr/src/linux-headers-" + release + "/include/config/auto.conf", Body: "CONFIG_MODULE_SIG_HASH=\"sha256\"\n"},
				repotest.File{Name: "usr/src/linux-headers-" + release + "/include/config/kernel.release", Body: release + "\n"},
				repotest.File{Name: "usr/src/linux-headers-" + release + "/include/generated/utsrelease.h", Body: "#define UTS_RELEASE \"" + release + "\"\n"},
				repotest.File{Name: "usr/src/linux-headers-" + release + "/Makefile", Body: "all:\n"},
				repotest.File{Name: "lib/modules/" + release + "/build", Link: "/usr/src/linux-headers-" + release}))
	}
	return list
}
