package cluster

import (
	"path/filepath"
	"testing"

	"github.com/driver-container/driver-container/ci/lab"
	"github.com/driver-container/driver-container/ci/testkit/cache"
	"github.com/driver-container/driver-container/ci/testkit/gate"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/tool"
)

// tools are the programs that the cluster needs in addition to the lab's, with the Debian package of each.
var tools = []struct{ name, from string }{{"mmdebstrap", "mmdebstrap"}, {"qemu-img", "qemu-utils"}, {"cpio", "cpio"}}

// Gate skips a test unless DRIVER_E2E=1 asks for the real tier; then anything that is missing is a failure.
func Gate(t testing.TB) {
	t.Helper()
	lab.Gate(t)
	for _, program := range tools {
		gate.Program(t, program.name, program.from)
	}
}

// cacheDir is the folder of guests and their states: DRIVER_CLUSTER_DIR, or a folder in the user's cache.
func cacheDir(t testing.TB) string {
	t.Helper()
	return require.Value(cache.Dir("cluster", "DRIVER_CLUSTER_DIR"))(t)
}

// cached returns a folder of the cache; see cache.Once. Of the folders with the same prefix, it keeps the
// keepStates that were used last.
func cached(t testing.TB, prefix, key string, build func(dir string)) string {
	t.Helper()
	path := filepath.Join(cacheDir(t), prefix+"-")
	require.NoError(t, cache.Once(path+key, func(partial string) error { build(partial); return nil }))
	require.NoError(t, cache.Prune(path+"*", keepStates, 0))
	return path + key
}

// sourceDir returns this package's folder.
func sourceDir(t testing.TB) string {
	t.Helper()
	return filepath.Join(require.Value(tool.Root())(t), "ci/cluster")
}
