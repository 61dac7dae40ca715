package runfile

import (
	"crypto/md5" //nolint:gosec // part of the format; it only detects damage
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
)

// checksums computes the three sums of an archive. A goroutine of its own writes to each.
type checksums struct {
	crc  *cksum
	md5  hash.Hash
	sha  hash.Hash
	size *counter
}

// newChecksums returns the sums of head. CRC and MD5 begin at the offset summed.
func newChecksums(head []byte, summed int) *checksums {
	s := &checksums{crc: newCksum(), md5: md5.New(), sha: sha256.New(), size: new(counter)} //nolint:gosec // see the import
	for _, w := range []io.Writer{s.crc, s.md5} {
		w.Write(head[summed:]) //nolint:errcheck // hashes do not fail
	}
	for _, w := range []io.Writer{s.sha, s.size} {
		w.Write(head) //nolint:errcheck // hashes do not fail
	}
	return s
}

// writers returns the sums that need every byte after the head. CRC and size are one writer, because they are
// the cheapest.
func (s *checksums) writers() []io.Writer {
	return []io.Writer{io.MultiWriter(s.crc, s.size), s.md5, s.sha}
}

// verify compares the sums with the head. symptom is the error of unpacking, or nil. It becomes the cause of
// a checksum error when a sum is wrong, and is the result when the sums are right.
func (s *checksums) verify(h Header, symptom error) (Sums, error) {
	sums := Sums{SHA256: hex.EncodeToString(s.sha.Sum(nil)), Size: int64(*s.size)}
	if got := s.crc.Sum32(); got != h.CRC {
		return sums, &ChecksumError{Sum: "CRC", Want: fmt.Sprint(h.CRC), Got: fmt.Sprint(got), Cause: symptom}
	}
	if got := hex.EncodeToString(s.md5.Sum(nil)); h.MD5 != "" && got != h.MD5 {
		return sums, &ChecksumError{Sum: "MD5", Want: h.MD5, Got: got, Cause: symptom}
	}
	return sums, symptom
}

// counter counts the bytes written to it.
type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}
