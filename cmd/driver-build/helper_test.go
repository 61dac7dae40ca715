package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/imagetest"
	"github.com/driver-container/driver-container/ci/require"
	"github.com/driver-container/driver-container/images/recipe"
)

// asProgram makes the test binary behave as driver-build, for tests that need a process.
const asProgram = "DRIVER_BUILD_TEST_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	os.Exit(m.Run())
}

const (
	oldDriver = imagetest.OldDriver
	newDriver = imagetest.NewDriver
)

// safeBuffer may be written while it is read.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// result is the outcome of a call.
type result struct {
	code           int
	stdout, stderr string
}

// user calls driver-build with a cache, a matrix and a folder of its own.
type user struct {
	*imagetest.World
	dir, cache string
	env        map[string]string
}

func newUser(t *testing.T) *user {
	t.Helper()
	return &user{imagetest.New(t), t.TempDir(), t.TempDir(), map[string]string{}}
}

func (u *user) path(name string) string { return filepath.Join(u.dir, name) }

// run adds the matrix of the world, the cache and plain progress.
func (u *user) run(t *testing.T, args ...string) result {
	t.Helper()
	return u.runContext(t.Context(), t, args...)
}

func (u *user) runContext(ctx context.Context, t *testing.T, args ...string) result {
	t.Helper()
	require.NoError(t, os.WriteFile(u.path("matrix.yaml"), []byte(u.Matrix()), 0o644))
	all := append([]string{}, args...)
	if len(args) == 0 || strings.HasPrefix(args[0], "-") || slices.Contains([]string{"list", "fetch", "kernels"}, args[0]) {
		if !strings.Contains(strings.Join(args, " "), "--matrix") {
			all = append(all, "--matrix", u.path("matrix.yaml"))
		}
	}
	all = append(all, "--cache", u.cache)
	if !strings.Contains(strings.Join(args, " "), "--progress") {
		all = append(all, "--progress", "plain")
	}
	return call(ctx, t, u.env, all...)
}

func call(ctx context.Context, t *testing.T, env map[string]string, args ...string) result {
	t.Helper()
	var stdout, stderr safeBuffer
	a := &app{
		stdout: &stdout, stderr: &stderr, getenv: func(name string) string { return env[name] },
		attempts: 2, backoff: time.Millisecond, binaries: programs(t),
	}
	code := run(ctx, a, args)
	return result{code, stdout.String(), stderr.String()}
}

// programs gives stand-ins for our own binaries.
func programs(t *testing.T) func(string) ([]recipe.Binary, error) {
	dir := t.TempDir()
	return func(arch string) ([]recipe.Binary, error) {
		data := imagetest.ELF{Arch: arch, Static: true}.Bytes()
		file := filepath.Join(dir, "entrypoint-"+arch)
		sum := sha256.Sum256(data)
		return []recipe.Binary{{Name: recipe.EntrypointName, SHA256: hex.EncodeToString(sum[:]), Path: file}}, os.WriteFile(file, data, 0o700)
	}
}

// want checks the exit code and what stderr says.
func (r result) want(t *testing.T, code int, parts ...string) {
	t.Helper()
	if r.code != code {
		t.Errorf("exit code %d, want %d\nstdout: %s\nstderr: %s", r.code, code, r.stdout, r.stderr)
	}
	for _, p := range parts {
		assert.Containsf(t, r.stderr, p, "stderr")
	}
}

// digest is that of the only line on stdout.
func (r result) digest(t *testing.T) string {
	t.Helper()
	_, d, ok := strings.Cut(strings.TrimSpace(r.stdout), "@sha256:")
	if !ok || len(d) != 64 {
		t.Errorf("stdout: %q", r.stdout)
	}
	return d
}

// normal replaces what differs from run to run.
func (u *user) normal(s string) string {
	s = strings.ReplaceAll(s, u.Host, "SERVER")
	s = strings.ReplaceAll(s, "driver-build "+buildInfo().Version+":", "driver-build VERSION:")
	s = regexp.MustCompile(`[0-9]+\.[0-9] MB`).ReplaceAllString(s, "N MB")
	return regexp.MustCompile(`[0-9a-f]{64}`).ReplaceAllString(s, "DIGEST")
}
