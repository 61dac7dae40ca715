package makeself

// cksum is POSIX cksum, implemented from the standard's formula and not shared with the reader under test:
// otherwise a mistake in one would hide in the other.
type cksum struct {
	table  [256]uint32
	crc    uint32
	length uint64
}

func newCksum() *cksum {
	c := new(cksum)
	for i := range c.table {
		crc := uint32(i) << 24
		for range 8 {
			if crc&(1<<31) != 0 {
				crc = crc<<1 ^ 0x04c11db7
			} else {
				crc <<= 1
			}
		}
		c.table[i] = crc
	}
	return c
}

func (c *cksum) add(b byte) { c.crc = c.crc<<8 ^ c.table[byte(c.crc>>24)^b] }

// Write adds p. It never fails.
func (c *cksum) Write(p []byte) (int, error) {
	for _, b := range p {
		c.add(b)
	}
	c.length += uint64(len(p))
	return len(p), nil
}

// sum ends the computation and returns the result.
func (c *cksum) sum() uint32 {
	for n := c.length; n > 0; n >>= 8 {
		c.add(byte(n))
	}
	return ^c.crc
}
