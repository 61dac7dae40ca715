package kernelmodules

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// The format of kmod's binary indexes, modules.*.bin: magic, version, offset of the root, then the
// nodes of a radix tree, children before their parent. All numbers are big endian. An offset has
// flags in its upper bits, which say what the node has: the rest of its key, children, values.
const (
	indexMagic   = 0xB007F457
	indexVersion = 0x00020001

	nodePrefix = 0x80000000
	nodeValues = 0x40000000
	nodeChilds = 0x20000000
	offsetEnd  = 0x0FFFFFFF
)

// keyEnd is the first byte that no key can have.
const keyEnd = 128

var errIndex = errors.New("kmod's index cannot hold it")

// entry is a key of an index with one of its values.
type entry struct {
	key, value string
	priority   int // place of the module in modules.dep: of equal keys the lowest counts first
}

// writeIndex returns the index of the entries.
func writeIndex(entries []entry) ([]byte, error) {
	for _, e := range entries {
		if strings.ContainsFunc(e.key+e.value, func(r rune) bool { return r == 0 || r >= keyEnd }) {
			return nil, fmt.Errorf("%w: %.80q", errIndex, e.key+" "+e.value)
		}
	}
	sorted := slices.Clone(entries)
	slices.SortStableFunc(sorted, func(a, b entry) int {
		return cmp.Or(strings.Compare(a.key, b.key), a.priority-b.priority)
	})
	w := &indexWriter{}
	w.number(indexMagic)
	w.number(indexVersion)
	w.number(0)
	root := w.node(sorted, 0, 0) // depmod gives the root no part of the key
	if w.Len() > offsetEnd {
		return nil, fmt.Errorf("%w: it has %d bytes", errIndex, w.Len())
	}
	binary.BigEndian.PutUint32(w.Bytes()[8:], root)
	return w.Bytes(), nil
}

type indexWriter struct{ bytes.Buffer }

func (w *indexWriter) number(n uint32) { w.Write(binary.BigEndian.AppendUint32(nil, n)) }

func (w *indexWriter) text(s string) {
	w.WriteString(s)
	w.WriteByte(0)
}

// commonPrefix is what all sorted keys begin with, from a place in the key.
func commonPrefix(sorted []entry, from int) string {
	if len(sorted) == 0 {
		return ""
	}
	first := sorted[0].key[from:]
	last := sorted[len(sorted)-1].key[from:]
	n := 0
	for n < len(first) && n < len(last) && first[n] == last[n] {
		n++
	}
	return first[:n]
}

// node writes the node of sorted keys that are equal up to from+prefix, and the nodes below it. It
// returns the offset with its flags.
func (w *indexWriter) node(sorted []entry, from, prefix int) uint32 {
	at := from + prefix
	own := 0
	for own < len(sorted) && len(sorted[own].key) == at {
		own++
	}
	var children []uint32
	var first byte
	for rest := sorted[own:]; len(rest) > 0; {
		char := rest[0].key[at]
		n := 0
		for n < len(rest) && rest[n].key[at] == char {
			n++
		}
		offset := w.node(rest[:n], at+1, len(commonPrefix(rest[:n], at+1)))
		if children == nil {
			first = char
		}
		// no key has the characters between
		children = append(children, make([]uint32, int(char-first)-len(children))...)
		children = append(children, offset)
		rest = rest[n:]
	}
	offset := uint32(w.Len()) //nolint:gosec // writeIndex checks the length
	if prefix > 0 {
		w.text(sorted[0].key[from:at])
		offset |= nodePrefix
	}
	if len(children) > 0 {
		w.Write([]byte{first, first + byte(len(children)-1)})
		for _, c := range children {
			w.number(c)
		}
		offset |= nodeChilds
	}
	if own > 0 {
		w.number(uint32(own)) //nolint:gosec // a few
		for _, e := range sorted[:own] {
			w.number(uint32(e.priority)) //nolint:gosec // a few
			w.text(e.value)
		}
		offset |= nodeValues
	}
	return offset
}
