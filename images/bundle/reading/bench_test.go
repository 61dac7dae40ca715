package reading_test

import (
	"crypto/sha256"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/driver-container/driver-container/ci/bundletest"
	"github.com/driver-container/driver-container/ci/require"
	"github.com/driver-container/driver-container/images/bundle"
	"github.com/driver-container/driver-container/images/bundle/reading"
	"github.com/driver-container/driver-container/images/bundle/writing"
)

// benchSize is that of the one large layer of the benchmarks.
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

// BenchmarkCreate compares with cp and sha256sum of the same bytes, one after the other.
func BenchmarkCreate(b *testing.B) {
	p, layer := large(b)
	dir := b.TempDir()
	b.Run("bundle", func(b *testing.B) {
		b.SetBytes(benchSize)
		for b.Loop() {
			require.NoError(b, p.WriteFiles(b.Context(), filepath.Join(dir, "b.tar"), false, nil))
		}
	})
	b.Run("cp+sha256", func(b *testing.B) {
		b.SetBytes(benchSize)
		for b.Loop() {
			to := require.Value(os.Create(filepath.Join(dir, "copy")))(b)
			from := require.Value(os.Open(layer))(b)
			require.Value(io.Copy(to, from))(b)
			require.NoError(b, to.Sync())
			require.NoError(b, to.Close())
			hashFile(b, layer)
		}
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
	b.Run("bundle", func(b *testing.B) {
		b.SetBytes(benchSize)
		for b.Loop() {
			_, findings, err := reading.Check(b.Context(), []reading.Source{{Name: name, Content: f, Size: p.Sizes[0]}}, trusted)
			require.NoError(b, err)
			require.NoError(b, bundle.Unsound(findings))
		}
	})
	b.Run("sha256", func(b *testing.B) {
		b.SetBytes(benchSize)
		for b.Loop() {
			hashFile(b, layer)
		}
	})
}
