package layer

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/images/recipe"
)

// Layers must not depend on the machine: the number of cores changes how the work is shared, not the bytes.
// It changes GOMAXPROCS, so it does not run beside other tests.
func TestCompressionDoesNotDependOnCores(t *testing.T) {
	words := rand.New(rand.NewPCG(1, 2))
	var plain bytes.Buffer
	for plain.Len() < 5<<20 { // more than a window of zstd
		fmt.Fprintf(&plain, "%d %x\n", words.IntN(5000), words.IntN(1<<20))
	}
	for _, c := range []recipe.Compression{recipe.Gzip, recipe.Zstd} {
		want := compressed(t, c, plain.Bytes(), 1)
		for _, cores := range []int{2, 16} {
			assert.Equalf(t, want, compressed(t, c, plain.Bytes(), cores), "%s with %d cores gives other bytes than with one", c, cores)
		}
	}
}

func compressed(t *testing.T, c recipe.Compression, plain []byte, cores int) [32]byte {
	t.Helper()
	before := runtime.GOMAXPROCS(cores)
	defer runtime.GOMAXPROCS(before)
	var out bytes.Buffer
	w := require.Value(newCompressor(c, &out, cores))(t)
	for len(plain) > 0 { // in pieces of another size than the blocks
		n := min(len(plain), 777_777)
		require.Value(w.Write(plain[:n]))(t)
		plain = plain[n:]
	}
	require.NoError(t, w.Close())
	return sha256.Sum256(out.Bytes())
}
