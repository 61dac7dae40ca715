package imagetest

import (
	"bytes"
	"debug/elf"
	"fmt"

	"github.com/driver-container/driver-container/distros/apt/debtest"
	"github.com/driver-container/driver-container/distros/repotest"
)

// Module is a kernel module that consists of its description: enough for code that reads the description, and
// for signing.
func Module(name, version, release string) []byte {
	const headerSize = 64
	info := fmt.Sprintf("name=%s\x00version=%s\x00license=NVIDIA\x00srcversion=AC415F9243EB439A4D6B17F\x00vermagic=%s SMP mod_unload \x00", name, version, release)
	names := "\x00.modinfo\x00.shstrtab\x00"
	sections := []elf.Section64{
		{},
		{Name: 1, Type: uint32(elf.SHT_PROGBITS), Off: headerSize, Size: uint64(len(info)), Addralign: 1},
		{Name: 10, Type: uint32(elf.SHT_STRTAB), Off: uint64(headerSize + len(info)), Size: uint64(len(names)), Addralign: 1},
	}
	h := elf.Header64{
		Type: uint16(elf.ET_REL), Machine: uint16(elf.EM_X86_64), Version: 1, Shoff: uint64(headerSize + len(info) + len(names)), Ehsize: headerSize,
		Shentsize: 64, Shnum: uint16(len(sections)), Shstrndx: 2,
	}
	copy(h.Ident[:], elf.ELFMAG)
	h.Ident[elf.EI_CLASS], h.Ident[elf.EI_DATA], h.Ident[elf.EI_VERSION] = byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), 1
	var out bytes.Buffer
	put(&out, h)
	out.WriteString(info)
	out.WriteString(names)
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
				repotest.File{Name: "lib/modules/" + release + "/build", Link: "/usr/src/linux-headers-" + release}))
	}
	return list
}
