package rpmdb

import (
	"encoding/binary"
	"hash/adler32"
)

// writeNDB writes both files of ndb, with the generation that follows that of the base.
func writeNDB(c Contents, generation uint32) (map[string][]byte, error) {
	generation++
	found, err := writeNDBIndex(c.Records, generation)
	if err != nil {
		return nil, err
	}
	return map[string][]byte{"Packages.db": WriteNDB(c, generation), "Index.db": found}, nil
}

// put encodes a structure at the beginning of a place that has room for it.
func put(to []byte, value any) { _, _ = binary.Encode(to, le, value) }

// WriteNDB returns a Packages.db: as many pages of slots as needed, and the blobs without gaps. The
// generation must differ from that of the base and equal that of Index.db.
func WriteNDB(c Contents, generation uint32) []byte {
	const perPage = ndbPage / ndbBlock
	pages := (len(c.Records) + ndbHeader/ndbBlock + perPage - 1) / perPage
	out := make([]byte, pages*ndbPage)
	put(out, ndbHead{word(ndbMagic), 0, generation, uint32(pages), c.Last + 1})
	for slot := ndbHeader; slot < pages*ndbPage; slot += ndbBlock {
		put(out[slot:], word(ndbSlotMagic))
	}
	for i, r := range c.Records {
		length := uint32(len(r.Blob))
		blob := make([]byte, ndbBlobSize(int64(length)))
		body := blob[:len(blob)-ndbTailSize]
		put(body, ndbBlobHead{word(ndbBlobMagic), r.Number, r.Stamp, length})
		copy(body[ndbBlock:], r.Blob)
		put(blob[len(body):], ndbBlobTail{adler32.Checksum(body), length, word(ndbBlobEnd)})
		slot := ndbSlot{
			word(ndbSlotMagic), r.Number, uint32(len(out) / ndbBlock), uint32(len(blob) / ndbBlock),
		}
		put(out[ndbHeader+i*ndbBlock:], slot)
		out = append(out, blob...)
	}
	return out
}
