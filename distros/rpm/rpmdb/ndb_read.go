package rpmdb

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/adler32"
	"slices"
)

// The layout of Packages.db of rpm's ndb, version 0; all numbers are little endian. A head is
// followed by slots up to the end of the pages of slots. The blobs follow, in blocks of 16 bytes:
//
//	ndbBlobHead   the header   zeros   ndbBlobTail
const (
	ndbMagic     = "RpmP"
	ndbSlotMagic = "Slot"
	ndbBlobMagic = "BlbS"
	ndbBlobEnd   = "BlbE"

	ndbHeader   = 32
	ndbBlock    = 16 // also the size of a slot and of a blob's head
	ndbPage     = 4096
	ndbTailSize = 12
)

type (
	ndbHead     struct{ Magic, Version, Generation, Pages, Next uint32 }
	ndbSlot     struct{ Magic, Number, First, Blocks uint32 } // First is a block
	ndbBlobHead struct{ Magic, Number, Stamp, Length uint32 }
	ndbBlobTail struct{ Sum, Length, Magic uint32 } // Sum is the Adler-32 of all before it
)

// word returns a magic text as a number of the file.
func word(text string) uint32 { return le.Uint32([]byte(text)) }

// ReadNDB reads Packages.db. Slots whose blobs overlap and wrong checksums are errors. The
// generation is a number that changes with every change of the file. Errors are ErrFormat.
func ReadNDB(data []byte) (c Contents, generation uint32, err error) {
	var head ndbHead
	_, err = binary.Decode(data, le, &head)
	if err != nil || head.Magic != word(ndbMagic) || head.Version != 0 {
		return c, 0, damaged("no ndb file of version 0")
	}
	end := int64(head.Pages) * ndbPage
	if end == 0 || end > int64(len(data)) {
		return c, 0, damaged("%d pages of slots in %d bytes", head.Pages, len(data))
	}
	slots, err := ndbSlots(data[:end])
	if err != nil {
		return c, 0, err
	}
	total := 0
	for _, s := range slots {
		at := int64(s.First) * ndbBlock
		before := end
		end = at + int64(s.Blocks)*ndbBlock
		if at < before || end > int64(len(data)) {
			return c, 0, damaged("package %d lies at %d to %d, in another or outside", s.Number, at, end)
		}
		err = c.addNDB(data[at:end], s.Number, &total)
		if err != nil {
			return c, 0, fmt.Errorf("package %d: %w", s.Number, err)
		}
	}
	c.Last = max(c.Last, max(head.Next, 1)-1)
	return c, head.Generation, nil
}

// ndbSlots returns the used slots, sorted by the blocks that they point to.
func ndbSlots(pages []byte) ([]ndbSlot, error) {
	all := make([]ndbSlot, (len(pages)-ndbHeader)/ndbBlock)
	_, err := binary.Decode(pages[ndbHeader:], le, all)
	if err != nil {
		return nil, damaged("its slots: %v", err)
	}
	for i, s := range all {
		if s.Magic != word(ndbSlotMagic) {
			return nil, damaged("slot %d is none", i)
		}
	}
	all = slices.DeleteFunc(all, func(s ndbSlot) bool { return s.First == 0 })
	slices.SortFunc(all, func(a, b ndbSlot) int { return cmp.Compare(a.First, b.First) })
	return all, nil
}

// addNDB adds the blob of a slot.
func (c *Contents) addNDB(data []byte, number uint32, total *int) error {
	var head ndbBlobHead
	var tail ndbBlobTail
	body := data[:max(0, len(data)-ndbTailSize)]
	_, err := binary.Decode(body, le, &head)
	if err != nil || int64(len(data)) != ndbBlobSize(int64(head.Length)) {
		return damaged("a header of %d bytes in a blob of %d", head.Length, len(data))
	}
	_, err = binary.Decode(data[len(body):], le, &tail)
	want := ndbBlobTail{adler32.Checksum(body), head.Length, word(ndbBlobEnd)}
	if err != nil || head.Magic != word(ndbBlobMagic) || head.Number != number || tail != want {
		return damaged("its blob is that of another one, or damaged")
	}
	blob := slices.Clip(body[ndbBlock : ndbBlock+head.Length])
	return c.Add(Record{Number: number, Blob: blob, Stamp: head.Stamp}, total)
}

// ndbBlobSize returns the size of the blob for a header of length bytes, in whole blocks.
func ndbBlobSize(length int64) int64 {
	return (ndbBlock + length + ndbTailSize + ndbBlock - 1) / ndbBlock * ndbBlock
}
