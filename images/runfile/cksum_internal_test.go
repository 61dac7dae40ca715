package runfile

import (
	"math/rand/v2"
	"testing"

	"github.com/driver-container/driver-container/ci/assert"
)

// The values come from cksum(1).
func TestCksum(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]uint32{"": 4294967295, "123456789": 930766865, "a": 1220704766, "hello\n": 3015617425} {
		c := newCksum()
		c.Write([]byte(text))
		assert.Equalf(t, want, c.Sum32(), "cksum of %q is", text)
	}
}

// Any division of the bytes into pieces gives the sum of the bytes one at a time.
func TestCksumPieces(t *testing.T) {
	t.Parallel()
	data := make([]byte, 4099)
	random := rand.NewChaCha8([32]byte{1})
	random.Read(data)
	bytewise := newCksum()
	for i := range data {
		bytewise.Write(data[i : i+1])
	}
	for _, size := range []int{7, 8, 9, 64, 1000, 4099} {
		c := newCksum()
		for rest := data; len(rest) > 0; {
			n := min(size, len(rest))
			c.Write(rest[:n])
			rest = rest[n:]
		}
		assert.Equalf(t, bytewise.Sum32(), c.Sum32(), "pieces of %d", size)
	}
}

func BenchmarkCksum(b *testing.B) {
	data := make([]byte, 1<<20)
	c := newCksum()
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		c.Write(data)
	}
}
