package supplychain

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/tool"
)

// keep is how long programs of older versions stay in the cache.
const keep = 48 * time.Hour

// tags are the build tags of clients that have some: without GnuPG, Docker's daemon and Podman's
// storage.
var tags = map[string]string{
	"containers-image": ",containers_image_openpgp,containers_image_docker_daemon_stub,containers_image_storage_stub",
}

// Program builds a client, which is the name of a folder of clients, or finds it in the cache, and
// returns its path. It fails the test if the client cannot be built. The first build of cosign
// takes minutes.
func Program(t testing.TB, client string) string {
	t.Helper()
	dir := filepath.Join(require.Value(tool.Project())(t), "ci/peers/supplychain/clients", client)
	target := "."
	if _, err := os.Stat(filepath.Join(dir, "main.go")); err != nil {
		target = "tool" // of the module
	}
	// Two compilers at a time need less than 2 GiB together.
	build := []string{
		"go",
		"build",
		"-p=2",
		"-trimpath",
		"-buildvcs=false",
		"-ldflags=-s -w",
		"-tags=netgo,osusergo" + tags[client],
	}
	version := require.Value(tool.Run(t.Context(), dir, nil, "go", "env", "GOVERSION", "GOARCH"))(t)
	folder := require.Value(tool.CacheDir("supplychain/"+client, ""))(t)
	// the folder pins every module
	path := filepath.Join(folder, require.Value(tool.CacheKey(append(build, version), dir))(t))
	require.NoErrorf(t, tool.Once(path, func(partial string) error {
		return connected(func() error {
			_, err := tool.Run(
				t.Context(),
				dir,
				[]string{"CGO_ENABLED=0"},
				append(build, "-o", partial, target)...)
			return err
		})
	}), "build %s", client)
	require.NoError(t, tool.Prune(filepath.Join(folder, "[0-9a-f]*"), 1, keep))
	return path
}
