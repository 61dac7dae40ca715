package rpmdb

import (
	"encoding/binary"
	"hash/adler32"
)

// writeNDB writes Packages.db: as many pages of slots as needed, and the blobs without gaps. The generation is the next one
// of the base's, and must be that of Index.db.
func writeNDB(c contents, base ndbHead) []byte {
	const perPage = ndbPage / ndbBlock
	pages := (len(c.records) + ndbHeader/ndbBlock + perPage - 1) / perPage
	size := int64(pages) * ndbPage
	for _, r := range c.records {
		size += ndbBlobSize(int64(len(r.blob)))
	}
	out := make([]byte, size)
	le := binary.LittleEndian
	copy(out, ndbMagic)
	le.PutUint32(out[8:], base.generation+1)
	le.PutUint32(out[12:], uint32(pages))
	le.PutUint32(out[16:], c.last+1)
	slot, at := ndbHeader, pages*ndbPage
	for _, r := range c.records {
		blob := out[at : at+int(ndbBlobSize(int64(len(r.blob))))]
		le.PutUint32(out[slot+4:], r.number)
		le.PutUint32(out[slot+8:], uint32(at/ndbBlock))
		le.PutUint32(out[slot+12:], uint32(len(blob)/ndbBlock))
		putNDBBlob(blob, r)
		slot, at = slot+ndbBlock, at+len(blob)
	}
	for slot = ndbHeader; slot < pages*ndbPage; slot += ndbBlock {
		copy(out[slot:], ndbSlotMagic)
	}
	return out
}

func putNDBBlob(out []byte, r record) {
	le := binary.LittleEndian
	copy(out, ndbBlobMagic)
	le.PutUint32(out[4:], r.number)
	le.PutUint32(out[8:], r.stamp)
	le.PutUint32(out[12:], uint32(len(r.blob)))
	copy(out[ndbBlobHead:], r.blob)
	tail := out[len(out)-ndbBlobTail:]
	le.PutUint32(tail, adler32.Checksum(out[:len(out)-ndbBlobTail]))
	le.PutUint32(tail[4:], uint32(len(r.blob)))
	copy(tail[8:], ndbBlobEnd)
}
