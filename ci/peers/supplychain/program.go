package supplychain

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/tool"
)

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
	return tool.Cached(t, folder, "", func(partial string) error {
		return connected(func() error {
			command := append(build, "-o", partial, target)
			_, err := tool.Run(t.Context(), dir, []string{"CGO_ENABLED=0"}, command...)
			return err
		})
	}, append(build, version), dir) // the folder pins every module
}
