// Package xzbench compares decoders of xz, the slow part of packages and of drivers up to R525. It is not
// part of the product; ci/bench runs it.
package xzbench

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"syscall"
	"testing"
	"time"

	fast "github.com/mikelolasagasti/xz"
	slow "github.com/ulikunitz/xz"

	"github.com/driver-container/driver-container/ci/require"
	"github.com/driver-container/driver-container/distros/unxz"
)

const window = 64 << 20

// candidate is a way to decode. The rate of a benchmark counts decoded bytes.
type candidate struct {
	name string
	open func(ctx context.Context, data []byte) (io.ReadCloser, error)
}

var inGo = candidate{"mikelolasagasti", func(_ context.Context, data []byte) (io.ReadCloser, error) {
	r, err := fast.NewReader(bytes.NewReader(data), window)
	return io.NopCloser(r), err
}}

// program is the machine's xz as driver-build uses it: with a pipe on both sides, and the checksums
// compared again.
func program(b *testing.B) candidate {
	d := unxz.Find(func(err error) { b.Error(err) })
	if d == nil {
		b.Skip("there is no xz program")
	}
	return candidate{"program", func(ctx context.Context, data []byte) (io.ReadCloser, error) {
		return d.In(ctx, bytes.NewReader(data), int64(len(data)))(bytes.NewReader(data), 0, -1, window)
	}}
}

// BenchmarkXZ decodes $XZ_FILE with each candidate.
func BenchmarkXZ(b *testing.B) {
	name := os.Getenv("XZ_FILE")
	if name == "" {
		b.Skip("XZ_FILE names no file")
	}
	data := require.Value(os.ReadFile(name))(b)
	for _, c := range []candidate{inGo, {"ulikunitz", func(_ context.Context, data []byte) (io.ReadCloser, error) {
		r, err := slow.NewReader(bufio.NewReaderSize(bytes.NewReader(data), 1<<16))
		return io.NopCloser(r), err
	}}, program(b)} {
		b.Run(c.name, func(b *testing.B) { measure(b, c, data) })
	}
}

// BenchmarkSmall shows from which size on a process pays. Streams below the bound of package unxz are decoded
// in Go by both.
func BenchmarkSmall(b *testing.B) {
	for _, size := range []int{64 << 10, 256 << 10, 1 << 20} {
		words, content := rand.New(rand.NewPCG(1, 2)), bytes.Buffer{}
		for content.Len() < size {
			fmt.Fprintf(&content, "%x ", words.Uint32())
		}
		var packed bytes.Buffer
		w := require.Value(slow.NewWriter(&packed))(b)
		require.Value(w.Write(content.Bytes()))(b)
		require.NoError(b, w.Close())
		for _, c := range []candidate{inGo, program(b)} {
			b.Run(fmt.Sprintf("%s/%dKiB", c.name, size>>10), func(b *testing.B) { measure(b, c, packed.Bytes()) })
		}
	}
}

// measure adds the processor time of this process and its children, which a busy machine changes little.
func measure(b *testing.B, c candidate, data []byte) {
	start, rounds := processorTime(b), 0
	for b.Loop() {
		r := require.Value(c.open(b.Context(), data))(b)
		n := require.Value(io.Copy(io.Discard, r))(b)
		require.NoError(b, r.Close())
		b.SetBytes(n)
		rounds++
	}
	b.ReportMetric(float64((processorTime(b)-start).Microseconds())/1000/float64(rounds), "cpu-ms/op")
}

func processorTime(b *testing.B) (total time.Duration) {
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var u syscall.Rusage
		require.NoError(b, syscall.Getrusage(who, &u))
		total += time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	return total
}
