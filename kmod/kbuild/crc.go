package kbuild

import (
	"context"
	"hash/crc64"
	"io"
	"os"
	"runtime"
	"sync"
)

// The parts of a file are read in parallel: when nothing has to be compiled, this check is the longest step
// of a start.
const (
	partSize = 8 << 20 // bytes; a smaller part is not worth a goroutine
	maxParts = 4
)

// fileCRC returns the CRC-64 (ECMA) of a file of this size. ok is false when the file is longer or shorter.
func fileCRC(ctx context.Context, file *os.File, size int64) (crc uint64, ok bool, err error) {
	if info, err := file.Stat(); err != nil || info.Size() != size {
		return 0, false, err
	}
	n := max(1, min(maxParts, int64(runtime.GOMAXPROCS(0)), size/partSize))
	parts := make([]part, n)
	var wait sync.WaitGroup
	for i := range parts {
		begin, end := size*int64(i)/n, size*int64(i+1)/n
		wait.Go(func() { parts[i].read(ctx, io.NewSectionReader(file, begin, end-begin)) })
	}
	wait.Wait()
	read := int64(0)
	for _, p := range parts {
		if p.err != nil {
			return 0, false, p.err
		}
		crc = joinCRC(crc, p.crc, p.size)
		read += p.size
	}
	return crc, read == size, nil
}

// part is the result for one part of a file.
type part struct {
	crc  uint64
	size int64
	err  error
}

func (p *part) read(ctx context.Context, r io.Reader) {
	sum := crc64.New(crc64.MakeTable(crc64.ECMA))
	p.size, p.err = copyContext(ctx, sum, r)
	p.crc = sum.Sum64()
}

// joinCRC returns the CRC of two texts, one after the other, from the CRC of each and the length of the
// second in bytes. It multiplies the first CRC by x to the power of the second's length in bits, modulo the
// polynomial.
func joinCRC(first, second uint64, size int64) uint64 {
	power, square := uint64(1)<<63, uint64(1)<<(63-8) // 1 and x^8: the highest coefficient is the lowest bit
	for ; size > 0; size >>= 1 {
		if size&1 != 0 {
			power = multiply(square, power)
		}
		square = multiply(square, square)
	}
	return multiply(power, first) ^ second
}

// multiply multiplies two polynomials modulo ECMA's.
func multiply(a, b uint64) uint64 {
	product := uint64(0)
	for bit := uint64(1) << 63; bit != 0; bit >>= 1 {
		if a&bit != 0 {
			product ^= b
		}
		low := b & 1
		b >>= 1
		if low != 0 {
			b ^= crc64.ECMA
		}
	}
	return product
}
