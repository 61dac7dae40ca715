package supplychain

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/ci/require"
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

// buildFlags make the same program of the same sources. Two compilers at a time need less than 2
// GiB together.
func buildFlags(client string) []string {
	return []string{"-p=2", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-tags=netgo,osusergo" + tags[client]}
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
	repo, err := repository()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(repo, "ci/supplychain/clients", client)
	key, err := key(ctx, dir)
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	cache = filepath.Join(cache, "driver-supplychain", client)
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", err
	}
	unlock, err := lock(filepath.Join(cache, "lock")) // packages are tested at the same time
	if err != nil {
		return "", err
	}
	defer unlock()
	path := filepath.Join(cache, key)
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return path, err
	}
	if err := connected(func() error { return build(ctx, dir, path) }); err != nil {
		return "", err
	}
	return path, prune(cache, key)
}

// build makes the program under a temporary name. A folder without sources has the program as a tool of its
// module.
func build(ctx context.Context, dir, path string) error {
	target := "."
	if _, err := os.Stat(filepath.Join(dir, "main.go")); err != nil {
		target = "tool"
	}
	temp := path + ".tmp"
	defer os.Remove(temp) //nolint:errcheck // renamed if all went well
	cmd := exec.CommandContext(ctx, "go", append(append([]string{"build"}, buildFlags(filepath.Base(dir))...), "-o", temp, target)...)
	cmd.Dir, cmd.Env, cmd.WaitDelay = dir, append(os.Environ(), "CGO_ENABLED=0"), 5*time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s in %s: %w: %s", strings.Join(cmd.Args, " "), dir, err, bytes.TrimSpace(out[max(0, len(out)-4<<10):]))
	}
	return os.Rename(temp, path)
}

// key names the content of a program: its sources with the pins of all modules, the flags, the Go release.
func key(ctx context.Context, dir string) (string, error) {
	sum := sha256.New()
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return "", err
		}
		fmt.Fprintf(sum, "%s %d %s\n", e.Name(), len(data), data)
	}
	cmd := exec.CommandContext(ctx, "go", "env", "GOVERSION", "GOARCH")
	cmd.Dir = dir
	release, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go env: %w", err)
	}
	fmt.Fprintf(sum, "%q %s", buildFlags(filepath.Base(dir)), release)
	return hex.EncodeToString(sum.Sum(nil))[:16], nil
}

// prune removes old programs of other versions.
func prune(cache, key string) error {
	entries, err := os.ReadDir(cache)
	if err != nil {
		return err
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || e.Name() == key || e.Name() == "lock" || time.Since(info.ModTime()) < keep {
			continue
		}
		if err := os.Remove(filepath.Join(cache, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

func lock(path string) (func(), error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
	}
	return func() { f.Close() }, nil
}

// repository returns the nearest folder above that holds the project's go.mod.
func repository() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for start := dir; ; dir = filepath.Dir(dir) {
		if data, err := os.ReadFile(filepath.Join(dir, "go.mod")); err == nil &&
			bytes.HasPrefix(data, []byte("module github.com/driver-container/driver-container\n")) {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("find the project's go.mod above %s: it is not there", start)
		}
	}
}
