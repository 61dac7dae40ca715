// Package commandtest calls commands of driver-build in tests as a user does: with a matrix, a
// cache, a registry and repositories of the user's own. Each package of commands uses it with a
// root that has its commands.
package commandtest

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/driver-container/driver-container/ci/testkit/imagetest"
	"github.com/driver-container/driver-container/ci/testkit/programtest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/tool"
	"github.com/driver-container/driver-container/cmd/driver-build/session"
)

// Root makes a root with the commands under test.
type Root func(*session.App) *cobra.Command

// User calls driver-build with a cache, a matrix and a folder of its own.
type User struct {
	*imagetest.World
	Dir, Cache string
	Env        map[string]string
	root       Root
}

// New makes a user in a world of its own.
func New(t *testing.T, root Root) *User {
	t.Helper()
	return In(t, imagetest.New(t), root)
}

// In makes a user in a world.
func In(t *testing.T, w *imagetest.World, root Root) *User {
	t.Helper()
	return &User{w, t.TempDir(), t.TempDir(), map[string]string{}, root}
}

// Path returns the path of a file in the user's folder.
func (u *User) Path(name string) string { return filepath.Join(u.Dir, name) }

// Run calls driver-build with the user's cache, plain progress, and the matrix of the world where
// it is needed.
func (u *User) Run(t *testing.T, args ...string) Result {
	t.Helper()
	return u.RunContext(t.Context(), t, args...)
}

// RunContext is Run with a context.
func (u *User) RunContext(ctx context.Context, t *testing.T, args ...string) Result {
	t.Helper()
	require.NoError(t, os.WriteFile(u.Path("matrix.yaml"), []byte(u.Matrix()), 0o644))
	text := strings.Join(args, " ")
	command, _, _ := strings.Cut(text, " ")
	all := slices.Clone(args)
	withMatrix := command == "" || command[0] == '-' ||
		slices.Contains([]string{"list", "fetch", "kernels"}, command)
	if withMatrix && !strings.Contains(text, "--matrix") {
		all = append(all, "--matrix", u.Path("matrix.yaml"))
	}
	all = append(all, "--cache", u.Cache)
	if !strings.Contains(text, "--progress") {
		all = append(all, "--progress", "plain")
	}
	return Call(ctx, t, u.root, u.Env, all...)
}

// Normal replaces what differs from run to run.
func (u *User) Normal(s string) string {
	s = strings.ReplaceAll(s, u.Host, "SERVER")
	s = strings.ReplaceAll(
		s,
		"driver-build "+session.BuildInfo().Version+":",
		"driver-build VERSION:",
	)
	s = regexp.MustCompile(`[0-9]+\.[0-9] MB`).ReplaceAllString(s, "N MB")
	return regexp.MustCompile(`[0-9a-f]{64}`).ReplaceAllString(s, "DIGEST")
}

// Day is the variable of the environment that has the day of a call, "2026-06-30"; without it, the
// clock counts.
const Day = "TEST_DAY"

// Call calls driver-build with these arguments and this environment alone.
func Call(
	ctx context.Context,
	t *testing.T,
	root Root,
	env map[string]string,
	args ...string,
) Result {
	t.Helper()
	var stdout, stderr tool.Buffer
	a := &session.App{
		Stdin:  strings.NewReader(""),
		Stdout: &stdout, Stderr: &stderr, Getenv: func(name string) string { return env[name] },
		Attempts: 2, Backoff: time.Millisecond, Binaries: programtest.Make(t, ""),
	}
	if env[Day] != "" {
		day := require.Value(time.Parse(time.DateOnly, env[Day]))(t)
		a.Clock = func() time.Time { return day }
	}
	code := a.Execute(ctx, root(a), args)
	return Result{code, stdout.String(), stderr.String()}
}
