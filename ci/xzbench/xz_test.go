// Package xzbench compares decoders of xz, the slow part of packages and of drivers up to R525. It is not
// part of the product; ci/bench runs it.
package xzbench

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"os/exec"
	"testing"

	fast "github.com/mikelolasagasti/xz"
	slow "github.com/ulikunitz/xz"

	"github.com/driver-container/driver-container/ci/require"
)

// BenchmarkXZ decodes $XZ_FILE with each candidate; the rate counts decoded bytes.
func BenchmarkXZ(b *testing.B) {
	name := os.Getenv("XZ_FILE")
	if name == "" {
		b.Skip("XZ_FILE names no file")
	}
	data := require.Value(os.ReadFile(name))(b)
	candidates := []struct {
		name string
		open func(io.Reader) (io.Reader, error)
	}{
		{"mikelolasagasti", func(r io.Reader) (io.Reader, error) { return fast.NewReader(r, 64<<20) }},
		{"ulikunitz", func(r io.Reader) (io.Reader, error) { return slow.NewReader(bufio.NewReaderSize(r, 1<<16)) }},
	}
	for _, c := range candidates {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				r := require.Value(c.open(bytes.NewReader(data)))(b)
				n := require.Value(io.Copy(io.Discard, r))(b)
				b.SetBytes(n)
			}
		})
	}
	b.Run("program", func(b *testing.B) {
		if _, err := exec.LookPath("xz"); err != nil {
			b.Skip("there is no xz program")
		}
		for b.Loop() {
			cmd := exec.CommandContext(b.Context(), "xz", "--decompress", "--stdout", "--threads=1")
			var n counter
			cmd.Stdin, cmd.Stdout = bytes.NewReader(data), &n
			require.NoError(b, cmd.Run())
			b.SetBytes(int64(n))
		}
	})
}

type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}
