package rpmdb

import (
	"bytes"
	"cmp"
	"fmt"
	"hash/adler32"
	"slices"
)

// The layout of Packages.db of rpm's ndb, version 0; all numbers are little endian. A header of 32
// bytes (magic, version, generation, pages of slots, next number) is followed by slots of 16 bytes
// (magic, number, first block, blocks) up to the end of the pages of slots. The blobs follow, in
// blocks of 16 bytes:
//
//	magic, number, time, length   the header   zeros   Adler-32 of all that, length, magic
const (
	ndbMagic     = "RpmP"
	ndbSlotMagic = "Slot"
	ndbBlobMagic = "BlbS"
	ndbBlobEnd   = "BlbE"

	ndbHeader   = 32
	ndbBlock    = 16 // also the size of a slot
	ndbPage     = 4096
	ndbBlobHead = 16
	ndbBlobTail = 12
)

// ndbSlot is a package's location in the file.
type ndbSlot struct{ number, first, blocks uint32 }

// ReadNDB reads Packages.db. Slots whose blobs overlap and wrong checksums are errors. The
// generation is a number that changes with every change of the file. Errors are ErrFormat.
func ReadNDB(data []byte) (c Contents, generation uint32, err error) {
	if len(data) < ndbPage || string(data[:4]) != ndbMagic {
		return c, 0, fmt.Errorf("%w: no ndb file", ErrFormat)
	}
	version := le.Uint32(data[4:])
	pages := le.Uint32(data[12:])
	next := le.Uint32(data[16:])
	if version != 0 {
		return c, 0, fmt.Errorf("%w: ndb file of version %d, want 0", ErrFormat, version)
	}
	if pages == 0 || int64(pages)*ndbPage > int64(len(data)) {
		return c, 0, fmt.Errorf("%w: %d pages of slots in %d bytes", ErrFormat, pages, len(data))
	}
	slots, err := ndbSlots(data[:int(pages)*ndbPage])
	if err != nil {
		return c, 0, err
	}
	end := int64(pages) * ndbPage
	total := 0
	for _, s := range slots {
		at := int64(s.first) * ndbBlock
		size := int64(s.blocks) * ndbBlock
		if at < end || at+size > int64(len(data)) {
			return c, 0, fmt.Errorf(
				"%w: package %d lies at %d to %d, want it between %d and %d",
				ErrFormat,
				s.number,
				at,
				at+size,
				end,
				len(data),
			)
		}
		end = at + size
		r, err := ndbBlob(data[at:end], s.number)
		if err == nil {
			err = c.Add(r, &total)
		}
		if err != nil {
			return c, 0, fmt.Errorf("package %d: %w", s.number, err)
		}
	}
	if next > 0 {
		c.Last = max(c.Last, next-1)
	}
	return c, le.Uint32(data[8:]), nil
}

// ndbSlots returns the used slots, sorted by the blocks that they point to.
func ndbSlots(pages []byte) ([]ndbSlot, error) {
	var slots []ndbSlot
	for at := ndbHeader; at < len(pages); at += ndbBlock {
		if string(pages[at:at+4]) != ndbSlotMagic {
			return nil, fmt.Errorf("%w: no slot at %d", ErrFormat, at)
		}
		s := ndbSlot{le.Uint32(pages[at+4:]), le.Uint32(pages[at+8:]), le.Uint32(pages[at+12:])}
		if s.first == 0 {
			continue
		}
		if len(slots) == MaxRecords {
			return nil, fmt.Errorf("%w: more than %d packages", ErrFormat, MaxRecords)
		}
		slots = append(slots, s)
	}
	slices.SortFunc(slots, func(a, b ndbSlot) int { return cmp.Compare(a.first, b.first) })
	return slots, nil
}

// ndbBlob reads the blob of a slot.
func ndbBlob(data []byte, number uint32) (Record, error) {
	if len(data) < ndbBlobHead+ndbBlobTail || string(data[:4]) != ndbBlobMagic {
		return Record{}, fmt.Errorf("%w: no blob", ErrFormat)
	}
	length := le.Uint32(data[12:])
	tail := data[len(data)-ndbBlobTail:]
	switch {
	case le.Uint32(data[4:]) != number:
		return Record{}, fmt.Errorf(
			"%w: its blob is that of package %d",
			ErrFormat,
			le.Uint32(data[4:]),
		)
	case int64(len(data)) != ndbBlobSize(int64(length)):
		return Record{}, fmt.Errorf(
			"%w: a header of %d bytes in a blob of %d",
			ErrFormat,
			length,
			len(data),
		)
	case le.Uint32(tail[4:]) != length || !bytes.Equal(tail[8:], []byte(ndbBlobEnd)):
		return Record{}, fmt.Errorf("%w: its blob has no end", ErrFormat)
	case adler32.Checksum(data[:len(data)-ndbBlobTail]) != le.Uint32(tail):
		return Record{}, fmt.Errorf("%w: its checksum is wrong", ErrFormat)
	}
	return Record{
		Number: number,
		Blob:   data[ndbBlobHead : ndbBlobHead+length : ndbBlobHead+length],
		Stamp:  le.Uint32(data[8:]),
	}, nil
}

// ndbBlobSize returns the size of the blob for a header of length bytes, in whole blocks.
func ndbBlobSize(length int64) int64 {
	return (ndbBlobHead + length + ndbBlobTail + ndbBlock - 1) / ndbBlock * ndbBlock
}
