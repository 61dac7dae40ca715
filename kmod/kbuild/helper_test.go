package kbuild

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/driver-container/driver-container/ci/require"
)

// write writes a file and its folders. A name that ends in "/" is a folder, a text "-> target" makes a link.
func write(t *testing.T, root, name, text string) string {
	t.Helper()
	path := filepath.Join(root, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	if target, ok := strings.CutPrefix(text, "-> "); ok {
		require.NoError(t, os.Symlink(target, path))
		return path
	}
	if strings.HasSuffix(name, "/") {
		require.NoError(t, os.MkdirAll(path, 0o755))
		return path
	}
	mode := os.FileMode(0o644)
	if strings.HasPrefix(text, "#!") {
		mode = 0o755
	}
	// A child that another test forks now would have the file open for writing, and the program could not start.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	require.NoError(t, os.WriteFile(path, []byte(text), mode))
	return path
}

const (
	release    = "6.1.0-56-amd64"
	driver     = "535.261.03"
	debianText = "gcc-12 (Debian 12.2.0-14+deb12u1) 12.2.0"
)

// outputTree writes the files that every prepared tree has in its build folder.
func outputTree(t *testing.T, root, dir, release string) {
	t.Helper()
	write(t, root, dir+"/include/generated/utsrelease.h", "#define UTS_RELEASE \""+release+"\"\n")
	write(t, root, dir+"/include/generated/autoconf.h", "")
	write(t, root, dir+"/include/config/auto.conf", "CONFIG_MODULES=y\nCONFIG_MODULE_SIG_HASH=\"sha256\"\nCONFIG_CC_VERSION_TEXT=\""+debianText+"\"\n")
	write(t, root, dir+"/Module.symvers", "0x1\tprintk\tvmlinux\tEXPORT_SYMBOL\n")
}

// sourceTree writes the files of the plain part of a tree.
func sourceTree(t *testing.T, root, dir string) {
	t.Helper()
	write(t, root, dir+"/include/linux/module.h", "")
}

// debianTree writes Debian's split tree: two folders, scripts elsewhere, links in /lib/modules, all absolute.
func debianTree(t *testing.T, root string) {
	t.Helper()
	own, common := "usr/src/linux-headers-"+release, "usr/src/linux-headers-6.1.0-56-common"
	outputTree(t, root, own, release)
	write(t, root, own+"/include/config/kernel.release", "6.1.192\n") // as in Debian's packages
	write(t, root, own+"/Makefile", "include /"+common+"/Makefile\n")
	write(t, root, own+"/scripts", "-> ../../lib/linux-kbuild-6.1/scripts")
	write(t, root, "usr/lib/linux-kbuild-6.1/scripts/mod/modpost", "#!")
	sourceTree(t, root, common)
	write(t, root, common+"/Makefile", "# top\n")
	write(t, root, "usr/lib/modules/"+release+"/build", "-> /"+own)
	write(t, root, "usr/lib/modules/"+release+"/source", "-> /"+common)
	write(t, root, "lib", "-> usr/lib")
}

// wholeTree writes a tree in one folder, like Red Hat's.
func wholeTree(t *testing.T, root, dir, release string) {
	t.Helper()
	outputTree(t, root, dir, release)
	sourceTree(t, root, dir)
	write(t, root, dir+"/Makefile", "# top\n")
	write(t, root, dir+"/scripts/mod/modpost", "#!")
}

// module returns a kernel module that has only its description.
func module(name, version, release string) []byte {
	info := fmt.Sprintf("name=%s\x00vermagic=%s SMP mod_unload\x00license=NVIDIA\x00", name, release)
	if version != "" {
		info += "version=" + version + "\x00"
	}
	names := "\x00.modinfo\x00.shstrtab\x00"
	var b bytes.Buffer
	put := func(values ...any) {
		for _, v := range values {
			_ = binary.Write(&b, binary.LittleEndian, v) // writes to memory
		}
	}
	data := uint64(64)
	sections := data + uint64(len(info)+len(names))
	put([]byte("\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00"))
	put(uint16(1), uint16(62), uint32(1), uint64(0), uint64(0), sections, uint32(0), uint16(64), uint16(0), uint16(0), uint16(64), uint16(3), uint16(2))
	put([]byte(info), []byte(names))
	section := func(name, kind uint32, offset, size uint64) {
		put(name, kind, uint64(0), uint64(0), offset, size, uint32(0), uint32(0), uint64(1), uint64(0))
	}
	section(0, 0, 0, 0)
	section(1, 1, data, uint64(len(info)))
	section(10, 3, data+uint64(len(info)), uint64(len(names)))
	return b.Bytes()
}

// bench has fake sources of a driver, headers and programs.
type bench struct {
	job   Job
	tools string // folder of make, strip and gcc
	kos   string // folder from which the fake make takes finished modules
}

// newBench returns a bench whose make is the given script, after lines that set $kos and enter the copied
// sources.
func newBench(t *testing.T, script string) bench {
	t.Helper()
	dir := t.TempDir()
	b := bench{tools: filepath.Join(dir, "tools"), kos: filepath.Join(dir, "kos")}
	for _, name := range []string{"nvidia", "nvidia-uvm"} {
		write(t, b.kos, name+".ko", string(module(strings.ReplaceAll(name, "-", "_"), driver, release)))
	}
	write(t, b.tools, "make", "#!/bin/sh\nkos="+b.kos+"\ncd \"$2\" || exit 9\n"+script+"\n")
	write(t, b.tools, "strip", "#!/bin/sh\n[ \"$1 $2\" = '-g -o' ] && cp \"$4\" \"$3\"\n")
	write(t, b.tools, "gcc-12", "#!/bin/sh\necho '"+debianText+"'\n")
	source := filepath.Join(dir, "src/kernel")
	write(t, source, "Makefile", "")
	write(t, source, "conftest.sh", "#!/bin/sh\n")
	write(t, source, "Kbuild", "NV_CONFTEST_TYPE_COMPILE_TESTS ?=\nNV_CONFTEST_FUNCTION_COMPILE_TESTS += one\n")
	write(t, source, "nvidia/nvidia.Kbuild", "NVIDIA_SOURCES += nvidia/nv.c\nNVIDIA_SOURCES += nvidia/nv-pci.c\n NV_CONFTEST_TYPE_COMPILE_TESTS += two\n")
	write(t, source, "nvidia/nv-kernel.o_binary", "blob")
	write(t, source, "nvidia/nv-kernel.h", "-> nv-kernel.o_binary")
	write(t, source, "nvidia-uvm/uvm.c", "")
	work := write(t, dir, "work/", "")
	root := filepath.Join(dir, "root")
	wholeTree(t, root, "usr/src/kernels/"+release, release)
	h := require.Value(FindHeaders(release, []Root{{root, "image"}}))(t)
	c := require.Value(FindCompiler(context.Background(), h, b.tools))(t)
	b.job = Job{
		Source: source, Driver: driver, Flavour: "proprietary", Kernel: "build-id 1234", Headers: h, Compiler: c, Jobs: 2,
		Modules: []string{"nvidia", "nvidia-uvm"}, Work: filepath.Clean(work), Log: filepath.Join(dir, "log"),
		Limits: Limits{Proc: dir, Cgroup: dir},
	}
	return b
}
