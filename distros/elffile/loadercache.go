package elffile

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"maps"
	"slices"
)

// LoaderCache is etc/ld.so.cache, as ldconfig of glibc 2.2 and later writes it, for 64-bit libraries: their absolute paths by
// the names that programs need. The loader also looks into its usual folders; libnvidia-container looks nowhere else.
func LoaderCache(machine Machine, libraries map[string]string) []byte {
	const headerSize, entrySize, littleEndian = 48, 24, 2
	kind := map[Machine]uint32{elf.EM_X86_64: 0x0303, elf.EM_AARCH64: 0x0a03}[machine]
	names := slices.SortedFunc(maps.Keys(libraries), func(a, b string) int { return compareLibraries(b, a) })
	var texts bytes.Buffer
	add := func(text string) (at uint32) {
		at = uint32(headerSize + entrySize*len(names) + texts.Len())
		texts.WriteString(text + "\x00")
		return at
	}
	var entries []byte
	for _, name := range names {
		for _, n := range []uint32{kind, add(name), add(libraries[name]), 0, 0, 0} { // the rest is for chosen processors
			entries = binary.LittleEndian.AppendUint32(entries, n)
		}
	}
	out := []byte("glibc-ld.so.cache1.1")
	for _, n := range []uint32{uint32(len(names)), uint32(texts.Len()), littleEndian, 0, 0, 0, 0} {
		out = binary.LittleEndian.AppendUint32(out, n)
	}
	return slices.Concat(out, entries, texts.Bytes())
}

// compareLibraries is the loader's order of names, in which it searches: numbers count as such.
func compareLibraries(a, b string) int {
	digit := func(s string) bool { return s != "" && s[0] >= '0' && s[0] <= '9' }
	number := func(s *string) (n int) {
		for ; digit(*s); *s = (*s)[1:] {
			n = n*10 + int((*s)[0]-'0')
		}
		return n
	}
	for a != "" && b != "" {
		switch {
		case digit(a) && digit(b):
			if x, y := number(&a), number(&b); x != y {
				return x - y
			}
		case digit(a):
			return 1
		case digit(b):
			return -1
		case a[0] != b[0]:
			return int(a[0]) - int(b[0])
		default:
			a, b = a[1:], b[1:]
		}
	}
	return len(a) - len(b)
}
