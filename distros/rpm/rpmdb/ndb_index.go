package rpmdb

import "math/bits"

// The layout of Index.db of rpm's ndb, version 0; all numbers are little endian. The file is a
// container: a header of 32 bytes (magic, version, generation, pages of slots, page size,
// generation of Packages.db) and slots of 16 bytes (magic with the use in its last byte, tag, first
// page, pages). The pages of each slot are a hash table, see ndbTable.
const (
	ndbIndexMagic     = "RpmX"
	ndbIndexSlotMagic = "Slo\x00"
	ndbTableMagic     = "RpmI"
	ndbTableHead      = 64
	ndbIndexHead      = 32
	ndbIndexSlotSize  = 16
	ndbKeyRoom        = 4096 // the least room for keys in a new table
)

// writeNDBIndex writes Index.db for the packages of a Packages.db of the same generation.
func writeNDBIndex(packages []Record, generation uint32) ([]byte, error) {
	out := make([]byte, ndbPage)
	for at := ndbIndexHead; at < ndbPage; at += ndbIndexSlotSize {
		copy(out[at:], ndbIndexSlotMagic)
	}
	head := []uint32{word(ndbIndexMagic), 0, uint32(len(indexes)), 1, ndbPage, generation}
	put(out, head)
	for i, x := range indexes {
		t, err := newNDBTable(packages, x)
		if err != nil {
			return nil, err
		}
		place := []uint32{uint32(x.tag), uint32(len(out) / ndbPage), uint32(len(t) / ndbPage)}
		put(out[ndbIndexHead+i*ndbIndexSlotSize+4:], place)
		out = append(out, t...)
	}
	return out, nil
}

// ndbTable is one hash table: a header of 64 bytes, slots of 12 bytes (first the 8 bytes of key and
// data of all slots, then the 4 bytes of further data of all slots), and keys with their lengths
// before them. The offset of a key in the table carries bits of its hash above those that offsets
// need, as a first check.
type ndbTable struct {
	slots, more []byte
	keys        []byte
	mask        uint32            // of the slots: their number is a power of two
	high        uint32            // bits of an offset that belong to the hash
	offsets     map[string]uint32 // of the keys in the table
	tried       map[uint32]ndbPath
}

// ndbPath is the state of the search for a free slot that began at one slot. The next search from
// the same slot continues there: otherwise thousands of files of one name, or keys made to have one
// hash, would take quadratic time.
type ndbPath struct{ slot, step uint32 }

type ndbPosting struct {
	key        string
	number, at uint32
}

// newNDBTable returns the table of an index, a whole number of pages.
func newNDBTable(packages []Record, x index) ([]byte, error) {
	t := &ndbTable{offsets: map[string]uint32{}, tried: map[uint32]ndbPath{}}
	list, keyBytes, err := t.collect(packages, x)
	if err != nil {
		return nil, err
	}
	// at most half of them used, as in rpm
	slots := uint32(4) << (bits.Len(uint(max(len(list), 256))) - 1)
	size := ndbTableHead + int(slots)*12 + keyBytes + ndbKeyRoom
	out := make([]byte, (size+ndbPage-1)/ndbPage*ndbPage)
	t.slots = out[ndbTableHead : ndbTableHead+slots*8]
	t.more = out[ndbTableHead+slots*8 : ndbTableHead+slots*12]
	t.keys = out[ndbTableHead+slots*12:]
	t.mask = slots - 1
	low := uint32(0x10000)
	for low != 0 && uint64(low) < uint64(len(t.keys))+8192 {
		low <<= 1
	}
	t.high = -low
	for _, p := range list {
		t.put(p)
	}
	count := uint32(len(list))
	put(out, []uint32{word(ndbTableMagic), 0, 1, slots, count, 0, t.high, uint32(keyBytes)})
	return out, nil
}

// collect returns the postings of all packages, each once, and assigns every key its offset. Offset
// 0 is never used.
func (t *ndbTable) collect(
	packages []Record,
	x index,
) (list []ndbPosting, keyBytes int, err error) {
	keyBytes = 1
	for _, p := range packages {
		seen := map[posting]bool{}
		for _, item := range x.postings(p.Header) {
			if seen[item] {
				continue
			}
			seen[item] = true
			list = append(list, ndbPosting{item.key, p.Number, item.position})
			if t.offsets[item.key] == 0 {
				t.offsets[item.key] = uint32(keyBytes)
				keyBytes += len(ndbKey(item.key))
			}
		}
		if len(list) > maxPostings || keyBytes > MaxBytes {
			return nil, 0, tooMany(x)
		}
	}
	return list, keyBytes, nil
}

func tooMany(x index) error {
	return damaged("more than %d entries for the index %s", maxPostings, x.table)
}

// put fills the first free slot on the path that the key's hash determines.
func (t *ndbTable) put(p ndbPosting) {
	hash := ndbHash(p.key)
	offset := t.offsets[p.key]
	copy(t.keys[offset:], ndbKey(p.key))
	at, ok := t.tried[hash&t.mask]
	if !ok {
		at = ndbPath{hash & t.mask, 7}
	}
	for le.Uint32(t.slots[at.slot*8:]) != 0 {
		at = ndbPath{(at.slot + at.step) & t.mask, at.step + 1}
	}
	t.tried[hash&t.mask] = at
	le.PutUint32(t.slots[at.slot*8:], offset|hash&t.high)
	data, more := ndbData(p.number, p.at)
	le.PutUint32(t.slots[at.slot*8+4:], data)
	le.PutUint32(t.more[at.slot*4:], more)
}

// ndbData packs a package's number and the position in its header.
func ndbData(number, at uint32) (data, more uint32) {
	switch {
	case number < 1<<20 && at < 1<<10:
		return number | at<<20, 0
	case number < 1<<24 && at < 1<<6:
		return number | at<<24 | 1<<30, 0
	}
	return at | 1<<31, number
}

// ndbKey returns a key with its length before it: one byte, or 255 and two bytes, or three times
// 255 and four bytes.
func ndbKey(key string) []byte {
	n := len(key)
	var out []byte
	switch {
	case n > 0 && n < 255:
		out = []byte{byte(n)}
	case n < 65535:
		out = []byte{255, byte(n), byte(n >> 8)}
	default:
		out = le.AppendUint32([]byte{255, 255, 255}, uint32(n))
	}
	return append(out, key...)
}

// ndbHash is rpm's variant of MurmurHash.
func ndbHash(key string) uint32 {
	const m = 0x5bd1e995
	h := uint32(len(key)) * m
	for ; key != ""; key = key[min(4, len(key)):] {
		var part [4]byte
		copy(part[:], key)
		h += le.Uint32(part[:])
		h *= m
		h ^= h >> 16
	}
	h *= m
	h ^= h >> 10
	h *= m
	h ^= h >> 17
	return h
}
