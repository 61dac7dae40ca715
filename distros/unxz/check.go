package unxz

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"hash"
	"hash/crc32"
	"hash/crc64"
)

// checker compares content with the sizes and the checksums of its blocks.
type checker struct {
	blocks []block // the current one is the first
	left   int64   // bytes of it
	sum    hash.Hash
}

func newChecker(blocks []block) *checker {
	c := &checker{blocks: blocks}
	c.begin()
	return c
}

func (c *checker) begin() {
	c.sum = nil
	if len(c.blocks) == 0 {
		return
	}
	c.left = c.blocks[0].size
	switch c.blocks[0].kind {
	case 1:
		c.sum = crc32.NewIEEE()
	case 4:
		c.sum = crc64.New(crc64.MakeTable(crc64.ECMA))
	case 10:
		c.sum = sha256.New()
	}
}

// add takes the next bytes of the content.
func (c *checker) add(p []byte) error {
	for {
		if err := c.next(); err != nil {
			return err
		}
		if len(p) == 0 {
			return nil
		}
		if len(c.blocks) == 0 {
			return errors.New("it wrote more than the stream has")
		}
		n := min(int64(len(p)), c.left)
		if c.sum != nil {
			c.sum.Write(p[:n])
		}
		c.left, p = c.left-n, p[n:]
	}
}

// next passes the blocks that are complete.
func (c *checker) next() error {
	for len(c.blocks) > 0 && c.left == 0 {
		if c.sum != nil && !bytes.Equal(c.value(), c.blocks[0].check) {
			return errors.New("a checksum of the stream differs from what it wrote")
		}
		c.blocks = c.blocks[1:]
		c.begin()
	}
	return nil
}

// value is the sum in the order of bytes that streams have.
func (c *checker) value() []byte {
	switch s := c.sum.(type) {
	case hash.Hash64:
		return binary.LittleEndian.AppendUint64(nil, s.Sum64())
	case hash.Hash32:
		return binary.LittleEndian.AppendUint32(nil, s.Sum32())
	}
	return c.sum.Sum(nil)
}

// end returns an error if the content is not complete.
func (c *checker) end() error {
	if len(c.blocks) > 0 {
		return errors.New("it wrote less than the stream has")
	}
	return nil
}
