package conformance

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
)

// keep is how long prepared folders of older versions stay.
const keep = 48 * time.Hour

// Prepare builds what Run needs, or finds it in the cache, and returns its folder:
//
//	bin/driver-conformance   static; looks at a root
//	consumer/                a Debian 12 of some 70 MB with nvidia-ctk, nvidia-cdi-hook,
//	                         nvidia-container-runtime, nvcdi-mock, devchar, runc
//	consumer/bundle/         the root of the containers that are started in it: a shell, ldconfig and libc
//
// The folder belongs to the cache: do not write to it. The first call takes about half a minute with Go's
// build cache empty, later ones about a second. Prepare fails the test if something is missing.
func Prepare(t testing.TB) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	begin := time.Now()
	dir, err := prepare(ctx)
	if err != nil {
		t.Fatalf("prepare the programs that look at driver roots: %v", err)
	}
	t.Logf("the consumer's programs: %s after %s", dir, time.Since(begin).Round(10*time.Millisecond))
	return dir
}

func prepare(ctx context.Context) (string, error) {
	repo, err := repository()
	if err != nil {
		return "", err
	}
	runc, err := exec.LookPath("runc")
	if err != nil {
		return "", fmt.Errorf("%w (Debian: apt-get install runc)", err)
	}
	key, err := key(filepath.Join(repo, "ci/conformance/clients"), runc)
	if err != nil {
		return "", err
	}
	cache, err := cacheDir()
	if err != nil {
		return "", err
	}
	unlock, err := lock(filepath.Join(cache, "lock")) // packages are tested at the same time
	if err != nil {
		return "", err
	}
	defer unlock()
	dir := filepath.Join(cache, key)
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		if err := build(ctx, repo, runc, dir); err != nil {
			return "", err
		}
	} else if err != nil {
		return "", err
	}
	if err := prune(cache, key); err != nil {
		return "", err
	}
	return dir, checker(ctx, repo, dir)
}

// build makes the folder under a temporary name.
func build(ctx context.Context, repo, runc, dir string) error {
	temp, err := os.MkdirTemp(filepath.Dir(dir), ".tmp-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp) //nolint:errcheck // renamed if all went well; otherwise prune removes it
	if err := os.Mkdir(filepath.Join(temp, "bin"), 0o755); err != nil {
		return err
	}
	clients := filepath.Join(temp, "clients")
	// Use this machine's compiler: built on Debian 12, programs with cgo need no newer glibc than Debian 12 has.
	if _, err := command(ctx, filepath.Join(repo, "ci/conformance/clients"), []string{"CGO_ENABLED=1", "CGO_CFLAGS=-O2 -Wno-deprecated-declarations"},
		"go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", clients+"/", "tool", "./nvcdi-mock", "./devchar"); err != nil {
		return err
	}
	base, err := command(ctx, repo, nil, "ci/base", "debian12")
	if err != nil {
		return err
	}
	system := filepath.Join(temp, "base")
	if _, err := command(ctx, repo, nil, "umoci", "raw", "unpack", "--image", strings.TrimPrefix(base, "oci:")+":debian12", system); err != nil {
		return err
	}
	if err := consumer(system, clients, runc, filepath.Join(temp, "consumer")); err != nil {
		return err
	}
	if err := errors.Join(os.RemoveAll(system), os.RemoveAll(clients), os.Chmod(temp, 0o755)); err != nil {
		return err
	}
	return os.Rename(temp, dir)
}

// checker builds driver-conformance. Its sources are part of the project: Go's cache knows whether they
// changed.
func checker(ctx context.Context, repo, dir string) error {
	program := filepath.Join(dir, "bin/driver-conformance")
	if _, err := command(ctx, repo, []string{"CGO_ENABLED=0"}, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w",
		"-o", program+".new", "./ci/conformance/driver-conformance"); err != nil {
		return err
	}
	return os.Rename(program+".new", program)
}

// key names the content: the sources of the clients, the Go release and runc.
func key(clients, runc string) (string, error) {
	sum := sha256.New()
	err := filepath.WalkDir(clients, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(sum, "%s %d %s\n", path, len(data), data)
		return err
	})
	if err != nil {
		return "", err
	}
	info, err := os.Stat(runc)
	if err != nil {
		return "", err
	}
	version, err := exec.Command("go", "env", "GOVERSION", "GOARCH").Output()
	if err != nil {
		return "", fmt.Errorf("go env: %w", err)
	}
	fmt.Fprintf(sum, "%s %d %d %s layout 1\n", runc, info.Size(), info.ModTime().UnixNano(), version)
	return hex.EncodeToString(sum.Sum(nil))[:16], nil
}

// prune removes old folders of other versions.
func prune(cache, key string) error {
	entries, err := os.ReadDir(cache)
	if err != nil {
		return err
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !e.IsDir() || e.Name() == key || strings.HasPrefix(e.Name(), "image-") || time.Since(info.ModTime()) < keep {
			continue
		}
		if err := os.RemoveAll(filepath.Join(cache, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

func cacheDir() (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir = filepath.Join(dir, "driver-conformance")
	return dir, os.MkdirAll(dir, 0o755)
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

// command runs a program and returns the last line that it printed.
func command(ctx context.Context, dir string, env []string, args ...string) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = dir, append(os.Environ(), env...), &stdout, &stderr, 5*time.Second
	if err := cmd.Run(); err != nil {
		text := bytes.TrimSpace(append(stdout.Bytes(), stderr.Bytes()...))
		return "", fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, text[max(0, len(text)-4<<10):])
	}
	lines := strings.Split(strings.TrimSpace(stdout.String()), "\n")
	return lines[len(lines)-1], nil
}
