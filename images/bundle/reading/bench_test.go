package reading_test

import (
	"crypto/sha256"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/ci/bundletest"
	"github.com/driver-container/driver-container/ci/require"
	"github.com/driver-container/driver-container/images/bundle"
	"github.com/driver-container/driver-container/images/bundle/reading"
	"github.com/driver-container/driver-container/images/bundle/writing"
)

// benchSize is that of the one large layer of the benchmarks, in bytes.
const benchSize = 256 << 20

// large makes the plan of a bundle, and the file of its large layer.
func large(b *testing.B) (p *writing.Plan, layer string) {
	b.Helper()
	layer = filepath.Join(b.TempDir(), "layer")
	f := require.Value(os.Create(layer))(b)
	require.Value(io.CopyN(f, rand.NewChaCha8([32]byte{}), benchSize))(b)
	require.NoError(b, f.Close())
	content := bundletest.Image(b, string(require.Value(os.ReadFile(layer))(b)))
	content.Blobs[0].Open = func() (io.ReadCloser, error) { return os.Open(layer) }
	return bundletest.Plan(b, bundletest.Options(), []writing.Artifact{{Kind: bundle.Image, Repository: bundletest.Origin, Content: content}}), layer
}

// cost is what one call took, in seconds.
type cost struct{ wall, cpu float64 }

func measure(b *testing.B, f func()) cost {
	b.Helper()
	cpu := func() float64 {
		var u unix.Rusage
		require.NoError(b, unix.Getrusage(unix.RUSAGE_SELF, &u))
		return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
	}
	begin, before := time.Now(), cpu()
	f()
	return cost{time.Since(begin).Seconds(), cpu() - before}
}

// against calls ours and the alternative in turns, and reports the medians of both, and their ratios: of
// processor time, which other work on the machine hardly changes, and of time that passed.
func against(b *testing.B, ours, alternative func()) {
	b.Helper()
	b.SetBytes(benchSize)
	var x, y []cost
	for b.Loop() {
		x, y = append(x, measure(b, ours)), append(y, measure(b, alternative))
	}
	median := func(all []cost, of func(cost) float64) float64 {
		var values []float64
		for _, c := range all {
			values = append(values, of(c))
		}
		slices.Sort(values)
		return values[len(values)/2]
	}
	for unit, of := range map[string]func(cost) float64{"cpu": func(c cost) float64 { return c.cpu }, "wall": func(c cost) float64 { return c.wall }} {
		one, other := median(x, of), median(y, of)
		b.ReportMetric(one, unit+"-s")
		b.ReportMetric(other, unit+"-s-alternative")
		b.ReportMetric(one/other, unit+"-ratio")
	}
	b.ReportMetric(0, "ns/op") // it would be that of both together
}

// BenchmarkCreate compares with cp of the same bytes, fsync, and sha256 of them.
func BenchmarkCreate(b *testing.B) {
	p, layer := large(b)
	dir := b.TempDir()
	against(b, func() { require.NoError(b, p.WriteFiles(b.Context(), filepath.Join(dir, "b.tar"), false, nil)) }, func() {
		to := require.Value(os.Create(filepath.Join(dir, "copy")))(b)
		from := require.Value(os.Open(layer))(b)
		require.Value(io.Copy(to, from))(b)
		require.NoError(b, to.Sync())
		require.NoError(b, to.Close())
		require.NoError(b, from.Close())
		hashFile(b, layer)
	})
}

func hashFile(b *testing.B, name string) {
	b.Helper()
	f := require.Value(os.Open(name))(b)
	defer f.Close()
	require.Value(io.CopyBuffer(struct{ io.Writer }{sha256.New()}, f, make([]byte, 256<<10)))(b)
}

// BenchmarkVerify compares with sha256 of the same bytes.
func BenchmarkVerify(b *testing.B) {
	p, layer := large(b)
	name := filepath.Join(b.TempDir(), "b.tar")
	require.NoError(b, p.WriteFiles(b.Context(), name, false, nil))
	f := require.Value(os.Open(name))(b)
	defer f.Close()
	against(b, func() {
		_, findings, err := reading.Check(b.Context(), []reading.Source{{Name: name, Content: f, Size: p.Sizes[0]}}, trusted)
		require.NoError(b, err)
		require.NoError(b, bundle.Unsound(findings))
	}, func() { hashFile(b, layer) })
}
