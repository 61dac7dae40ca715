package elffile

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
)

// library returns a library: header, strings, dynamic section, section names, section table.
func library(soname string, needed ...string) []byte {
	text, dynamic := []byte{0}, []elf.Dyn64{}
	add := func(tag elf.DynTag, s string) {
		dynamic = append(dynamic, elf.Dyn64{Tag: int64(tag), Val: uint64(len(text))})
		text = append(append(text, s...), 0)
	}
	add(elf.DT_SONAME, soname)
	for _, n := range needed {
		add(elf.DT_NEEDED, n)
	}
	return layout(text, append(dynamic, elf.Dyn64{}), "\x00.dynstr\x00.dynamic\x00.shstrtab\x00", 0)
}

func layout(text []byte, dynamic []elf.Dyn64, names string, flags elf.SectionFlag, more ...elf.Section64) []byte {
	var b bytes.Buffer
	put := func(v any) {
		if err := binary.Write(&b, binary.LittleEndian, v); err != nil {
			panic(err) // fixed sizes only
		}
	}
	at := uint64(64)
	section := func(name uint32, typ elf.SectionType, link uint32, size int) elf.Section64 {
		s := elf.Section64{Name: name, Type: uint32(typ), Link: link, Off: at, Size: uint64(size), Flags: uint64(flags)}
		at += uint64(size)
		return s
	}
	sections := append([]elf.Section64{{}, section(1, elf.SHT_STRTAB, 0, len(text)), section(9, elf.SHT_DYNAMIC, 1, 16*len(dynamic)),
		section(18, elf.SHT_STRTAB, 0, len(names))}, more...)
	h := elf.Header64{Type: uint16(elf.ET_DYN), Machine: uint16(elf.EM_X86_64), Shoff: at, Shentsize: 64, Shnum: uint16(len(sections)), Shstrndx: 3}
	copy(h.Ident[:], elf.ELFMAG+"\x02\x01\x01")
	put(h)
	b.Write(text)
	put(dynamic)
	b.WriteString(names)
	put(sections)
	return b.Bytes()
}

// library32 is a library of 32 bits without a section table.
func library32() []byte {
	h := elf.Header32{Type: uint16(elf.ET_DYN), Machine: uint16(elf.EM_386), Phoff: 52, Phentsize: 32, Phnum: 1}
	copy(h.Ident[:], elf.ELFMAG+"\x01\x01\x01")
	var b bytes.Buffer
	for _, v := range []any{h, elf.Prog32{Type: uint32(elf.PT_INTERP), Off: 52, Filesz: 32}} {
		if err := binary.Write(&b, binary.LittleEndian, v); err != nil {
			panic(err)
		}
	}
	return b.Bytes()
}

func read(b []byte) (*File, error) { return Read(bytes.NewReader(b), int64(len(b))) }

func TestRead(t *testing.T) {
	t.Parallel()
	f, err := read(library("libcuda.so.1", "libc.so.6", "libm.so.6"))
	if err != nil || f.Machine != elf.EM_X86_64 || f.Bits != 64 || f.Relocatable || f.Interp || f.Soname != "libcuda.so.1" || !slices.Equal(f.Needed, []string{"libc.so.6", "libm.so.6"}) {
		t.Fatalf("%+v, %v", f, err)
	}
	text, err := f.Section(".shstrtab", 100)
	if err != nil || !strings.Contains(string(text), ".dynamic") {
		t.Errorf("section: %q, %v", text, err)
	}
	large := assert.Err(f.Section(".shstrtab", 3))
	assert.Equalf(t, true, errors.Is(large, ErrFormat) && !errors.Is(large, ErrNoSection), "section above its limit: %v", large)
	assert.ErrorIsf(t, assert.Err(f.Section(".dyn", 3)), ErrNoSection, "a part of a name")
	small, err := read(library32())
	if err != nil || small.Bits != 32 || small.Machine != I386 || !small.Interp {
		t.Errorf("32 bits: %+v, %v", small, err)
	}
}

// TestRealFiles compares programs and libraries of this machine with what debug/elf reads.
func TestRealFiles(t *testing.T) {
	t.Parallel()
	self := require.Value(os.Executable())(t)
	for _, name := range []string{self, "/bin/sh", "/lib/x86_64-linux-gnu/libc.so.6", "/usr/lib64/libc.so.6"} {
		in, err := os.Open(name)
		if err != nil {
			continue // another system
		}
		defer in.Close()
		st := require.Value(in.Stat())(t)
		got, err := Read(in, st.Size())
		require.NoErrorf(t, err, "%s", name)
		want := require.Value(elf.NewFile(in))(t)
		needed, _ := want.ImportedLibraries()      // a static program has none
		soname, _ := want.DynString(elf.DT_SONAME) // likewise
		if got.Machine != want.Machine || !slices.Equal(got.Needed, needed) || len(soname) > 0 && got.Soname != soname[0] {
			t.Errorf("%s: %+v; debug/elf has %s, %q, %q", name, got, want.Machine, needed, soname)
		}
	}
}

// TestHostile: each file is refused, or read without more memory than it has bytes.
//
//nolint:paralleltest // it measures what the process allocates
func TestHostile(t *testing.T) {
	good := library("libcuda.so.1", "libc.so.6")
	patch := func(at int, with ...byte) []byte {
		b := bytes.Clone(good)
		copy(b[at:], with)
		return b
	}
	endless := slices.Repeat([]elf.Dyn64{{Tag: int64(elf.DT_NEEDED), Val: 1}}, maxNeeded+1)
	for name, c := range map[string]struct {
		file []byte
		want error
	}{
		"empty":                       {nil, ErrMagic},
		"script":                      {[]byte("#!/bin/sh\nexec true\n"), ErrMagic},
		"zeros":                       {make([]byte, 4096), ErrMagic},
		"100 bytes":                   {good[:60], ErrFormat},
		"half":                        {good[:len(good)/2], ErrFormat},
		"one byte short":              {good[:len(good)-1], ErrFormat},
		"class":                       {patch(4, 9), ErrFormat},
		"big endian":                  {patch(5, 2), ErrFormat},
		"section table behind it":     {patch(40, 0, 0, 0, 0, 0, 0, 0, 0x80), ErrFormat},
		"section entries of one byte": {patch(58, 1, 0), ErrFormat},
		"program headers behind it":   {patch(32, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 64, 0, 56, 0, 1, 0), ErrFormat},
		"many segments":               {patch(54, 56, 0, 0xff, 0xff), ErrFormat},
		"sections counted elsewhere":  {patch(60, 0, 0), nil},
		"dynamic section too long":    {layout([]byte("\x00x\x00"), make([]elf.Dyn64, maxDynamic+1), "\x00", 0), ErrFormat},
		"needs too many":              {layout([]byte("\x00x\x00"), endless, "\x00", 0), ErrFormat},
		"soname without end":          {layout([]byte("xxxx"), []elf.Dyn64{{Tag: int64(elf.DT_SONAME)}}, "\x00", 0), ErrFormat},
		"soname too long":             {layout(make([]byte, 2), []elf.Dyn64{{Tag: int64(elf.DT_SONAME), Val: 7}}, "\x00", 0), ErrFormat},
		"soname of many bytes":        {library(strings.Repeat("a", maxName+1)), ErrFormat},
		// debug/elf would inflate these names, and copy the long one for each section.
		"compressed": {layout([]byte("\x00x\x00"), []elf.Dyn64{{}}, "\x00", elf.SHF_COMPRESSED), nil},
		"long names": {layout([]byte("\x00x\x00"), []elf.Dyn64{{}}, strings.Repeat("n", 1<<20), 0, slices.Repeat([]elf.Section64{{Name: 1}}, 10_000)...), nil},
	} {
		if used := allocated(func() {
			f, err := read(c.file)
			if !errors.Is(err, c.want) || c.want == nil && err != nil {
				t.Errorf("%s: %v, want %v", name, err, c.want)
			}
			if f != nil {
				assert.ErrorIsf(t, assert.Err(f.Section(".modinfo", 1000)), ErrNoSection, "%s: section", name)
			}
		}); used > 8<<20 {
			t.Errorf("%s: reading it allocates %d bytes", name, used)
		}
	}
}

func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func FuzzRead(f *testing.F) {
	f.Add(library("libcuda.so.1", "libc.so.6"))
	f.Add(library32())
	f.Add(layout([]byte("\x00x\x00"), []elf.Dyn64{{Tag: int64(elf.DT_NEEDED), Val: 1}}, "\x00.modinfo\x00", elf.SHF_COMPRESSED))
	f.Add(LoaderCache(elf.EM_X86_64, map[string]string{"libcuda.so.1": "/usr/lib/libcuda.so.1"}))
	f.Fuzz(func(t *testing.T, b []byte) {
		ReadLoaderCache(elf.EM_X86_64, b)
		file, err := read(b)
		if err != nil {
			if !errors.Is(err, ErrMagic) && !errors.Is(err, ErrFormat) {
				t.Fatalf("an error of no kind: %v", err)
			}
			return
		}
		if len(file.Soname) > maxName || len(file.Needed) > maxNeeded {
			t.Fatalf("beyond the bounds: %+v", file)
		}
		for _, name := range []string{".modinfo", ".dynstr", ""} {
			if text, err := file.Section(name, 100); len(text) > 100 || err != nil && !errors.Is(err, ErrFormat) && !errors.Is(err, ErrNoSection) {
				t.Fatalf("section %q: %d bytes, %v", name, len(text), err)
			}
		}
	})
}

// TestLoaderCache: ldconfig reads it, in the loader's order.
func TestLoaderCache(t *testing.T) {
	t.Parallel()
	ldconfig, err := exec.LookPath("/sbin/ldconfig")
	if err != nil {
		t.Skip("this machine has no ldconfig")
	}
	libraries := map[string]string{}
	for _, name := range []string{"libcuda.so", "libcuda.so.1", "libx.so.9", "libx.so.10", "libx-2.so", "libxa.so"} {
		libraries[name] = "/usr/lib/x/" + name
	}
	file := filepath.Join(t.TempDir(), "cache")
	testfile.Write(t, file, string(LoaderCache(elf.EM_X86_64, libraries)))
	var order []string
	text := testfile.Read(t, file)
	assert.Same(t, libraries, ReadLoaderCache(elf.EM_X86_64, []byte("ld.so-1.7.0\x00"+text)))
	for n := range text { // cut off
		ReadLoaderCache(elf.EM_X86_64, []byte(text[:n]))
	}
	for line := range strings.Lines(string(require.Value(exec.CommandContext(t.Context(), ldconfig, "-p", "-C", file).CombinedOutput())(t))) {
		if name, path, ok := strings.Cut(strings.TrimSpace(line), " (libc6,x86-64) => "); ok {
			assert.Equal(t, libraries[name], path)
			order = append(order, name)
		}
	}
	assert.Equal(t, "libxa.so libx.so.10 libx.so.9 libx-2.so libcuda.so.1 libcuda.so", strings.Join(order, " "))
}
