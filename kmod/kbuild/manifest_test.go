package kbuild

import (
	"context"
	"hash/crc64"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/driver-container/driver-container/ci/require"
)

func TestFileCRC(t *testing.T) {
	t.Parallel()
	random := rand.NewChaCha8([32]byte{})
	for _, size := range []int{0, 1, 256 << 10, 8<<20 + 12345} {
		content := make([]byte, size)
		_, _ = random.Read(content) // never fails
		path := filepath.Join(t.TempDir(), "file")
		require.NoError(t, os.WriteFile(path, content, 0o644))
		f := require.Value(os.Open(path))(t)
		defer f.Close()
		want := crc64.Checksum(content, crc64.MakeTable(crc64.ECMA))
		if got, ok, err := fileCRC(t.Context(), f, int64(size)); got != want || !ok || err != nil {
			t.Errorf("%d bytes: %016x, %v, %v; want %016x", size, got, ok, err, want)
		}
		for _, other := range []int{size - 1, size + 1} {
			if _, ok, err := fileCRC(t.Context(), f, int64(other)); ok || err != nil {
				t.Errorf("%d bytes taken for %d: %v, %v", size, other, ok, err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, _, err := fileCRC(ctx, f, int64(size)); err == nil {
			t.Error("it does not end with the context")
		}
	}
}
