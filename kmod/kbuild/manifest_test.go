package kbuild

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

// TestReadAll: a file is read to the limit, in parts, and not after the context's end.
func TestReadAll(t *testing.T) {
	t.Parallel()
	random := rand.NewChaCha8([32]byte{})
	content := make([]byte, 2<<20+12345)
	_, _ = random.Read(content) // never fails
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, content, 0o644))
	for _, limit := range []int{0, 1, len(content) - 1, len(content), len(content) + 1} {
		var got bytes.Buffer
		n, err := readAll(t.Context(), path, &got, int64(limit))
		if want := content[:min(len(content), limit)]; err != nil || int(n) != len(want) || !bytes.Equal(got.Bytes(), want) {
			t.Errorf("up to %d bytes: %d, %v", limit, n, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	assert.ErrorIs(t, assert.Err(readAll(ctx, os.DevNull, io.Discard, 1)), context.Canceled)
}
