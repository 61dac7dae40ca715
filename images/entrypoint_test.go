package images

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/driver-container/driver-container/ci/require"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/rootfs"
)

// TestWhereProgramsGo: pod specifications name driver-evict by its path.
func TestWhereProgramsGo(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "program")
	require.NoError(t, os.WriteFile(file, []byte("program"), 0o755))
	spool := require.Value(rootfs.NewSpool(t.TempDir()))(t)
	tree := rootfs.New(spool, nil)
	for name, path := range map[string]string{recipe.EntrypointName: "usr/local/bin/driver-entrypoint", recipe.EvictName: "usr/bin/driver-evict"} {
		require.NoError(t, addProgram(tree, recipe.Binary{Name: name, Path: file}))
		if e, ok := tree.Lstat(path); !ok || e.Mode != 0o755 {
			t.Errorf("%s is not at %s: %+v", name, path, e)
		}
	}
}
