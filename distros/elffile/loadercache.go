package elffile

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"maps"
	"slices"
)

// LoaderCachePath is where the loader's cache is in a root.
const LoaderCachePath = "etc/ld.so.cache"

const (
	cacheMagic                       = "glibc-ld.so.cache1.1"
	cacheHeader, cacheEntry, cacheLE = 48, 24, 2 // bytes; little endian
	maxCache                         = 1 << 20   // bytes
)

// cacheKinds say in an entry which processor a library is for, and that it is for glibc 2.
var cacheKinds = map[Machine]uint32{elf.EM_X86_64: 0x0303, elf.EM_AARCH64: 0x0a03}

// ReadLoaderCache returns what LoaderCache takes, from the text of a cache, which may have an older
// format in front; nothing from other texts. It leaves out libraries for chosen processors. Of
// those with one name the loader takes the first.
func ReadLoaderCache(machine Machine, text []byte) map[string]string {
	begin := bytes.Index(text, []byte(cacheMagic))
	libraries := map[string]string{}
	if begin < 0 || len(text) < begin+cacheHeader || len(text) > maxCache {
		return libraries
	}
	text = text[begin:]
	word := func(at int) int { return int(binary.LittleEndian.Uint32(text[at:])) }
	name := func(at int) string {
		at = min(at, len(text))
		before, _, _ := bytes.Cut(text[at:min(at+maxName, len(text))], []byte{0})
		return string(before)
	}
	for at := cacheHeader; at+cacheEntry <= min(len(text), cacheHeader+cacheEntry*word(len(cacheMagic))); at += cacheEntry {
		chosen := binary.LittleEndian.Uint64(text[at+16:]) != 0
		if key := name(word(at + 4)); uint32(word(at)) == cacheKinds[machine] && !chosen &&
			libraries[key] == "" {
			libraries[key] = name(word(at + 8))
		}
	}
	return libraries
}

// LoaderCache is etc/ld.so.cache, as ldconfig of glibc 2.2 and later writes it, for 64-bit
// libraries: their absolute paths by the names that programs need. The loader also looks into its
// usual folders; libnvidia-container looks nowhere else.
func LoaderCache(machine Machine, libraries map[string]string) []byte {
	names := slices.SortedFunc(
		maps.Keys(libraries),
		func(a, b string) int { return compareLibraries(b, a) },
	)
	var texts bytes.Buffer
	add := func(text string) (at uint32) {
		at = uint32(cacheHeader + cacheEntry*len(names) + texts.Len())
		texts.WriteString(text + "\x00")
		return at
	}
	var entries []byte
	for _, name := range names {
		// the rest is for chosen processors
		for _, n := range []uint32{cacheKinds[machine], add(name), add(libraries[name]), 0, 0, 0} {
			entries = binary.LittleEndian.AppendUint32(entries, n)
		}
	}
	out := []byte(cacheMagic)
	for _, n := range []uint32{uint32(len(names)), uint32(texts.Len()), cacheLE, 0, 0, 0, 0} {
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
			a = a[1:]
			b = b[1:]
		}
	}
	return len(a) - len(b)
}
