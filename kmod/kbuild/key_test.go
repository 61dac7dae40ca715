package kbuild

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/kbuildtest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/kmod/kbuild/buildtree"
)

func TestKeyString(t *testing.T) {
	t.Parallel()
	k := Key{Driver: driver, Flavour: "proprietary", Release: release, Arch: "amd64", Kernel: "build-id 12", Compiler: "gcc 12.2.0", Method: 1}
	const want = "535.261.03-proprietary-6.1.0-56-amd64-"
	name := k.String()
	if !strings.HasPrefix(name, want) || len(name) != len(want)+12 {
		t.Errorf("%s", name)
	}
	for what, change := range map[string]func(*Key){
		"arch": func(k *Key) { k.Arch = "arm64" }, "kernel": func(k *Key) { k.Kernel = "build-id 13" }, "compiler": func(k *Key) { k.Compiler = "gcc 12.2.1" },
		"patches": func(k *Key) { k.Patches = []string{"a"} }, "recipe": func(k *Key) { k.Method = 2 },
	} {
		other := k
		change(&other)
		if other.String() == name {
			t.Errorf("%s is not in the name", what)
		}
	}
}

// note returns one ELF note.
func note(name string, kind uint32, desc string) []byte {
	var b bytes.Buffer
	for _, v := range []uint32{uint32(len(name)), uint32(len(desc)), kind} {
		_ = binary.Write(&b, binary.LittleEndian, v) // writes to memory
	}
	for _, text := range []string{name, desc} {
		b.WriteString(text + strings.Repeat("\x00", (4-len(text)%4)%4))
	}
	return b.Bytes()
}

func TestKernelID(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	testfile.Write(t, dir+"/sys/kernel/osrelease", release+"\n")
	notes := append(note("Linux\x00", 0x100, "6.1"), note("GNU\x00", 3, "\x01\x02\x03\x04\x05\x06\x07\x08")...)
	testfile.Write(t, dir+"/kernel/notes", string(append(note("Xen\x00", 6, "abcde"), notes...)))
	assert.Equalf(t, "build-id 0102030405060708", require.Value(KernelID(release, buildtree.Headers{}, dir, dir))(t), "running")
	assert.Errorf(t, assert.Err(KernelID("5.10.0", buildtree.Headers{}, dir, dir)), "another kernel without headers")
	root := t.TempDir()
	kbuildtest.Headers(t, root+"/usr/src/kernels/5.10.0", "5.10.0")
	h := require.Value(buildtree.Find("5.10.0", []buildtree.Root{{Dir: root, Name: "image"}}))(t)
	first, err := KernelID("5.10.0", h, dir, dir)
	if err != nil || !strings.HasPrefix(first, "headers ") {
		t.Errorf("headers: %q, %v", first, err)
	}
	testfile.Write(t, h.Build+"/Module.symvers", "0x2\tprintk\tvmlinux\tEXPORT_SYMBOL\n")
	if second, err := KernelID("5.10.0", h, dir, dir); err != nil || second == first {
		t.Errorf("other symbols: %q, %v", second, err)
	}
}

func FuzzBuildID(f *testing.F) {
	f.Add(note("GNU\x00", 3, "12345678"))
	f.Add(note("Xen\x00", 3, "1"))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 3, 0, 0, 0})
	f.Fuzz(func(t *testing.T, notes []byte) {
		if id, ok := buildID(notes); ok && (len(id) < 16 || len(id) > 128) {
			t.Errorf("%q", id)
		}
	})
}
