package kbuild

import (
	"context"
	"hash/crc64"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

func TestFileCRC(t *testing.T) {
	t.Parallel()
	random := rand.NewChaCha8([32]byte{})
	for _, size := range []int{0, 1, partSize - 1, partSize, 2*partSize + 1, 5*partSize + 12345} {
		content := make([]byte, size)
		_, _ = random.Read(content) // never fails
		path := filepath.Join(t.TempDir(), "file")
		must(t, os.WriteFile(path, content, 0o644))
		f, err := os.Open(path)
		must(t, err)
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

func FuzzJoinCRC(f *testing.F) {
	f.Add([]byte("first"), []byte("second"))
	f.Add([]byte{}, []byte{0})
	table := crc64.MakeTable(crc64.ECMA)
	f.Fuzz(func(t *testing.T, a, b []byte) {
		whole := crc64.Update(crc64.Checksum(a, table), table, b)
		if got := joinCRC(crc64.Checksum(a, table), crc64.Checksum(b, table), int64(len(b))); got != whole {
			t.Errorf("%016x, want %016x", got, whole)
		}
	})
}
