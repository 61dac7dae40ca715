// Package zbench compares what can compress a layer: size, and processor time to compress and to unpack. It
// is not part of the product; ci/bench runs it.
package zbench

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/klauspost/pgzip"

	"github.com/driver-container/driver-container/ci/require"
)

// candidate compresses. Those with a program run it.
type candidate struct {
	name    string
	writer  func(io.Writer) (io.WriteCloser, error)
	program []string
}

// candidates are encoders and levels; images/layer has gzip-5 and zstd-default.
func candidates() (all []candidate) {
	for _, level := range []int{1, 3, 5, 6, 9} {
		all = append(all, candidate{name: fmt.Sprint("gzip-", level), writer: func(w io.Writer) (io.WriteCloser, error) {
			z, err := pgzip.NewWriterLevel(w, level)
			if err != nil {
				return nil, err
			}
			return z, z.SetConcurrency(1<<20, 4)
		}})
	}
	for name, level := range map[string]zstd.EncoderLevel{"fastest": zstd.SpeedFastest, "default": zstd.SpeedDefault, "better": zstd.SpeedBetterCompression} {
		all = append(all, candidate{name: "zstd-" + name, writer: func(w io.Writer) (io.WriteCloser, error) {
			return zstd.NewWriter(w, zstd.WithEncoderLevel(level), zstd.WithEncoderConcurrency(2), zstd.WithWindowSize(4<<20), zstd.WithLowerEncoderMem(true))
		}})
	}
	return append(all, candidate{name: "program-gzip-6", program: []string{"gzip", "-6"}},
		candidate{name: "program-zstd-3", program: []string{"zstd", "-q", "-3", "-T2"}}, candidate{name: "program-zstd-9", program: []string{"zstd", "-q", "-9", "-T2"}})
}

// BenchmarkLayer compresses $LAYER, the tar of a layer, once with each candidate.
func BenchmarkLayer(b *testing.B) {
	name := os.Getenv("LAYER")
	if name == "" {
		b.Skip("LAYER names no file")
	}
	for _, c := range candidates() {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				compress(b, c, name)
			}
		})
	}
}

func compress(b *testing.B, c candidate, name string) {
	in := require.Value(os.Open(name))(b)
	defer in.Close()
	var out bytes.Buffer
	start := processorTime(b)
	if c.program != nil {
		cmd := exec.CommandContext(b.Context(), c.program[0], c.program[1:]...)
		cmd.Stdin, cmd.Stdout = in, &out
		require.NoError(b, cmd.Run())
	} else {
		z := require.Value(c.writer(&out))(b)
		require.Value(io.Copy(z, in))(b)
		require.NoError(b, z.Close())
	}
	b.ReportMetric((processorTime(b) - start).Seconds(), "cpu-s")
	b.ReportMetric(float64(out.Len())/1e6, "MB")
	// What a node does with it: containerd runs a program for gzip (unpigz or igzip) if there is one, else Go's.
	unpacker, program := "gzip", []string{"gzip", "-dc"}
	if strings.Contains(c.name, "zstd") {
		unpacker, program = "zstd", []string{"zstd", "-q", "-dc"}
	}
	start = processorTime(b)
	cmd := exec.CommandContext(b.Context(), program[0], program[1:]...)
	cmd.Stdin = bytes.NewReader(out.Bytes())
	require.NoError(b, cmd.Run())
	b.ReportMetric((processorTime(b) - start).Seconds(), "unpack-cpu-s")
	start = processorTime(b)
	var plain io.Reader
	if unpacker == "gzip" {
		plain = require.Value(gzip.NewReader(&out))(b)
	} else {
		z := require.Value(zstd.NewReader(&out))(b)
		defer z.Close()
		plain = z
	}
	require.Value(io.Copy(io.Discard, plain))(b)
	b.ReportMetric((processorTime(b) - start).Seconds(), "unpack-Go-cpu-s")
}

// processorTime is that of this process and the children that it has waited for.
func processorTime(b *testing.B) (total time.Duration) {
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var u syscall.Rusage
		require.NoError(b, syscall.Getrusage(who, &u))
		total += time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	return total
}
