package rpmdb

import (
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

// WriteNDB returns a Packages.db: as many pages of slots as needed, and the blobs without gaps. The
// generation must differ from that of the base and equal that of Index.db.
func WriteNDB(c Contents, generation uint32) []byte {
	const perPage = ndbPage / ndbBlock
	pages := (len(c.Records) + ndbHeader/ndbBlock + perPage - 1) / perPage
	size := int64(pages) * ndbPage
	for _, r := range c.Records {
		size += ndbBlobSize(int64(len(r.Blob)))
	}
	out := make([]byte, size)
	copy(out, ndbMagic)
	le.PutUint32(out[8:], generation)
	le.PutUint32(out[12:], uint32(pages))
	le.PutUint32(out[16:], c.Last+1)
	slot := ndbHeader
	at := pages * ndbPage
	for _, r := range c.Records {
		blob := out[at : at+int(ndbBlobSize(int64(len(r.Blob))))]
		le.PutUint32(out[slot+4:], r.Number)
		le.PutUint32(out[slot+8:], uint32(at/ndbBlock))
		le.PutUint32(out[slot+12:], uint32(len(blob)/ndbBlock))
		putNDBBlob(blob, r)
		slot = slot + ndbBlock
		at = at + len(blob)
	}
	for slot = ndbHeader; slot < pages*ndbPage; slot += ndbBlock {
		copy(out[slot:], ndbSlotMagic)
	}
	return out
}

func putNDBBlob(out []byte, r Record) {
	copy(out, ndbBlobMagic)
	le.PutUint32(out[4:], r.Number)
	le.PutUint32(out[8:], r.Stamp)
	le.PutUint32(out[12:], uint32(len(r.Blob)))
	copy(out[ndbBlobHead:], r.Blob)
	tail := out[len(out)-ndbBlobTail:]
	le.PutUint32(tail, adler32.Checksum(out[:len(out)-ndbBlobTail]))
	le.PutUint32(tail[4:], uint32(len(r.Blob)))
	copy(tail[8:], ndbBlobEnd)
}
