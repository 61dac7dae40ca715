package conformance

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/tool"
)

// keep is how long prepared folders of older versions stay.
const keep = 48 * time.Hour

// Prepare makes the consumer, or finds it in the cache, and returns its folder: a Debian 12 with nvidia-ctk,
// nvidia-cdi-hook, nvidia-container-runtime, nvcdi-mock and runc; also the root of the containers that are started
// in it. The folder belongs to the cache: do not write to it. The first call takes about half a minute with Go's
// build cache empty, later ones about a second. Prepare fails the test if something is missing.
func Prepare(t testing.TB) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	begin := time.Now()
	dir, err := prepare(ctx)
	require.NoErrorf(t, err, "prepare the programs that look at driver roots")
	t.Logf("the consumer's programs: %s after %s", dir, time.Since(begin).Round(10*time.Millisecond))
	return dir
}

func prepare(ctx context.Context) (string, error) {
	repo, err := tool.Project()
	if err != nil {
		return "", err
	}
	runc, err := exec.LookPath("runc")
	if err != nil {
		return "", fmt.Errorf("%w (Debian: apt-get install runc)", err)
	}
	info, err := os.Stat(runc)
	if err != nil {
		return "", err
	}
	version, err := tool.Run(ctx, repo, nil, "go", "env", "GOVERSION", "GOARCH")
	if err != nil {
		return "", err
	}
	texts := []string{"layout 3", version, runc, fmt.Sprint(info.Size(), info.ModTime().UnixNano())}
	key, err := tool.CacheKey(texts, filepath.Join(repo, "ci/peers/conformance/clients"))
	if err != nil {
		return "", err
	}
	folder, err := cacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(folder, key)
	err = tool.Once(dir, func(partial string) error { return build(ctx, repo, runc, partial) })
	if err != nil {
		return "", err
	}
	if err := tool.Prune(filepath.Join(folder, "[0-9a-f]*"), 1, keep); err != nil {
		return "", err
	}
	return dir, nil
}

// runtimeConfig is the configuration of nvidia-container-runtime: NVIDIA's mode cdi with the specifications
// of the run, and runc.
const runtimeConfig = `[nvidia-container-runtime]
mode = "cdi"
runtimes = ["/usr/sbin/runc"]
[nvidia-container-runtime.modes.cdi]
default-kind = "nvidia.com/gpu"
spec-dirs = ["/run/cdi"]
`

// build makes the folder.
func build(ctx context.Context, repo, runc, dir string) error {
	base, err := tool.Run(ctx, repo, nil, "ci/base", "debian12")
	if err != nil {
		return err
	}
	config := filepath.Join(dir, "etc/nvidia-container-runtime")
	// Use this machine's compiler: built on Debian 12, programs with cgo need no newer glibc than Debian 12 has.
	clients := filepath.Join(repo, "ci/peers/conformance/clients")
	cgo := []string{"CGO_ENABLED=1", "CGO_CFLAGS=-O2 -Wno-deprecated-declarations"}
	for _, step := range [][]string{
		{"umoci", "raw", "unpack", "--image", strings.TrimPrefix(strings.TrimSpace(base), "oci:") + ":debian12", dir},
		{"go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", dir + "/usr/bin/", "tool", "./nvcdi-mock"},
		{"cp", "--dereference", runc, dir + "/usr/sbin/runc"},
		{"mkdir", config},
	} {
		if _, err := tool.Run(ctx, clients, cgo, step...); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(config, "config.toml"), []byte(runtimeConfig), 0o644)
}

func cacheDir() (string, error) { return tool.CacheDir("conformance", "") }
