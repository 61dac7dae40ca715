package runfile

import "math/bits"

// cksum is the checksum of POSIX cksum(1): polynomial 0x04C11DB7, most significant bit first, started from
// zero, with the length appended, complemented at the end. It is neither hash/crc32's IEEE (reflected,
// started from ones) nor any other table of that package.
//
// Eight tables process eight bytes a step, several times as fast as one byte at a time. That matters because
// every byte of a 400 MB archive passes through here.
type cksum struct {
	tables *[8][256]uint32
	crc    uint32
	length uint64
}

const cksumPolynomial = 0x04c11db7

// newCksum returns the sum of no bytes.
func newCksum() *cksum {
	t := new([8][256]uint32)
	for i := range 256 {
		crc := uint32(i) << 24
		for range 8 {
			carry := crc >> 31
			crc = crc<<1 ^ carry*cksumPolynomial
		}
		t[0][i] = crc
	}
	for k := 1; k < 8; k++ {
		for i := range 256 {
			prev := t[k-1][i]
			t[k][i] = prev<<8 ^ t[0][prev>>24]
		}
	}
	return &cksum{tables: t}
}

// Write adds p. It never fails.
func (c *cksum) Write(p []byte) (int, error) {
	n := len(p)
	c.length += uint64(n)
	crc, t := c.crc, c.tables
	for len(p) >= 8 {
		crc ^= uint32(p[0])<<24 | uint32(p[1])<<16 | uint32(p[2])<<8 | uint32(p[3])
		crc = t[7][crc>>24] ^ t[6][crc>>16&0xff] ^ t[5][crc>>8&0xff] ^ t[4][crc&0xff] ^
			t[3][p[4]] ^ t[2][p[5]] ^ t[1][p[6]] ^ t[0][p[7]]
		p = p[8:]
	}
	for _, b := range p {
		crc = crc<<8 ^ t[0][byte(crc>>24)^b]
	}
	c.crc = crc
	return n, nil
}

// Sum32 returns the checksum of the bytes that were written.
func (c *cksum) Sum32() uint32 {
	crc := c.crc
	for n, left := c.length, (bits.Len64(c.length)+7)/8; left > 0; left-- {
		crc = crc<<8 ^ c.tables[0][byte(crc>>24)^byte(n)]
		n >>= 8
	}
	return ^crc
}
