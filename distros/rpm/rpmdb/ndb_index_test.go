package rpmdb

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/distros/rpm/rpmfile"
)

// readNDBIndex returns the content of an Index.db, rpm's or ours, as "tag key number position", sorted. It
// follows the hash of every key as rpm does, so that a posting that rpm would not find is missing.
func readNDBIndex(t *testing.T, data []byte) []string {
	t.Helper()
	if string(data[:4]) != ndbIndexMagic || le.Uint32(data[16:]) != ndbPage {
		t.Fatalf("Index.db begins with %x", data[:32])
	}
	var out []string
	for at := ndbIndexHead; at < int(le.Uint32(data[12:]))*ndbPage; at += ndbIndexSlotSize {
		if string(data[at:at+4]) != ndbIndexSlotMagic {
			t.Fatalf("slot at %d: %x", at, data[at:at+16])
		}
		tag, first, pages := le.Uint32(data[at+4:]), le.Uint32(data[at+8:]), le.Uint32(data[at+12:])
		if first == 0 {
			continue
		}
		for _, p := range readNDBTable(t, data[first*ndbPage:(first+pages)*ndbPage]) {
			out = append(out, fmt.Sprintf("%d %q %d %d", tag, p.key, p.number, p.at))
		}
	}
	slices.Sort(out)
	return out
}

func readNDBTable(t *testing.T, data []byte) []ndbPosting {
	t.Helper()
	slots, used, high, end := le.Uint32(data[12:]), le.Uint32(data[16:]), le.Uint32(data[24:]), le.Uint32(data[28:])
	keys, mask := data[ndbTableHead+slots*12:], slots-1
	var out []ndbPosting
	for at := uint32(1); at < end; {
		if keys[at] == 0 {
			at++ // a key that was removed
			continue
		}
		offset, n, head := at, uint32(keys[at]), uint32(1)
		if n == 255 {
			n, head = uint32(le.Uint16(keys[at+1:])), 3
		}
		key := string(keys[at+head : at+head+n])
		at += head + n
		for h, step := ndbHash(key)&mask, uint32(7); ; h, step = (h+step)&mask, step+1 {
			slot := le.Uint32(data[ndbTableHead+h*8:])
			if slot == 0 {
				break
			}
			if slot != offset|ndbHash(key)&high {
				continue
			}
			packed, more := le.Uint32(data[ndbTableHead+h*8+4:]), le.Uint32(data[ndbTableHead+slots*8+h*4:])
			p := ndbPosting{key, packed & 0xfffff, packed >> 20}
			switch {
			case packed>>31 == 1:
				p = ndbPosting{key, more, packed &^ (1 << 31)}
			case packed>>30 == 1:
				p = ndbPosting{key, packed & 0xffffff, packed >> 24 & 0x3f}
			}
			out = append(out, p)
		}
	}
	if uint32(len(out)) != used || used*2 > slots || end >= ^high {
		t.Errorf("table of %d slots, %d used, %d found, keys to %d of %#x", slots, used, len(out), end, ^high)
	}
	return out
}

func TestNDBIndex(t *testing.T) {
	t.Parallel()
	var packages []Record
	want := 0
	for _, number := range []uint32{1, 2, 1<<20 - 1, 1 << 20, 1 << 24, MaxNumber} {
		names := []string{"", "a", "bin", strings.Repeat("x", 254), strings.Repeat("y", 255), strings.Repeat("z", 60000)}
		for i := range 1500 {
			names = append(names, fmt.Sprintf("file%d", i%1100)) // some twice: two positions of one key
		}
		want += len(names)
		packages = append(packages, Record{Number: number, Header: header(t, entry(rpmfile.TagBaseNames, names))})
	}
	data := require.Value(writeNDBIndex(packages, 1))(t)
	// The constants of the format, which the reader below shares, are those with which rpm 4.20 reads and makes such files.
	assert.Equal(t, "fcb780410ae939fd0da06c10da75f00881923c2b3fac2c7e1c3cc8c355a73429", fmt.Sprintf("%x", sha256.Sum256(data)))
	got := readNDBIndex(t, data)
	var expect []string
	for _, p := range packages {
		for _, x := range indexes {
			for _, item := range x.postings(p.Header) {
				expect = append(expect, fmt.Sprintf("%d %q %d %d", x.tag, item.key, p.Number, item.position))
			}
		}
	}
	slices.Sort(expect)
	if !slices.Equal(got, expect) || len(got) != want+len(packages) { // plus one group for each package
		t.Errorf("%d postings, want %d (%d)", len(got), len(expect), want+len(packages))
	}
}

// TestNDBCollisions has many postings whose search begins at one slot: it must not take quadratic time.
func TestNDBCollisions(t *testing.T) {
	t.Parallel()
	names := slices.Repeat([]string{"__init__.py"}, 100000)
	h := header(t, entry(rpmfile.TagBaseNames, names))
	i := slices.IndexFunc(indexes, func(x index) bool { return x.tag == rpmfile.TagBaseNames })
	data := require.Value(newNDBTable([]Record{{Number: 1, Header: h}}, indexes[i]))(t)
	assert.Equalf(t, 100000, binary.LittleEndian.Uint32(data[16:]), "postings")
}
