package supplychain

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/tool"
)

const (
	// keep is how long programs of older versions stay in the cache.
	keep = 48 * time.Hour
	// buildTime is the longest build: a slow machine that compiles cosign and all it needs.
	buildTime = time.Hour
)

// tags are the build tags of clients that have some: without GnuPG, Docker's daemon and Podman's storage.
var tags = map[string]string{
	"containers-image": ",containers_image_openpgp,containers_image_docker_daemon_stub,containers_image_storage_stub",
}

// Program builds a client, which is the name of a folder of clients, or finds it in the cache, and returns
// its path. It fails the test if the client cannot be built. The first build of cosign takes minutes.
func Program(t testing.TB, client string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), buildTime)
	defer cancel()
	begin := time.Now()
	path, err := program(ctx, client)
	require.NoErrorf(t, err, "build %s", client)
	if took := time.Since(begin); took > time.Second {
		t.Logf("built %s after %s: %s", client, took.Round(100*time.Millisecond), path)
	}
	return path
}

func program(ctx context.Context, client string) (string, error) {
	root, err := tool.Project()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(root, "ci/peers/supplychain/clients", client)
	// Two compilers at a time need less than 2 GiB together.
	build := []string{"go", "build", "-p=2", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-tags=netgo,osusergo" + tags[client]}
	version, err := tool.Run(ctx, dir, nil, "go", "env", "GOVERSION", "GOARCH")
	if err != nil {
		return "", err
	}
	key, err := tool.CacheKey(append(build, version), dir) // the folder pins every module
	if err != nil {
		return "", err
	}
	folder, err := tool.CacheDir("supplychain/"+client, "")
	if err != nil {
		return "", err
	}
	target := "."
	if _, err := os.Stat(filepath.Join(dir, "main.go")); err != nil {
		target = "tool" // of the module
	}
	path := filepath.Join(folder, key)
	err = tool.Once(path, func(partial string) error {
		return connected(func() error {
			_, err := tool.Run(ctx, dir, []string{"CGO_ENABLED=0"}, append(build, "-o", partial, target)...)
			return err
		})
	})
	if err != nil {
		return "", err
	}
	return path, tool.Prune(filepath.Join(folder, "[0-9a-f]*"), 1, keep)
}
