// Package tool is what tests need of the machine: the real tier, root, programs, namespaces, unused
// ports, and a cache of what they make once.
package tool

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/require"
)

// Run runs a program, its name first, in a folder, with more variables than this process has, in
// English. It returns what the program wrote to its standard output. The error has the end of all
// that it wrote.
func Run(ctx context.Context, dir string, env []string, args ...string) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = dir
	cmd.Env = append(append(os.Environ(), "LC_ALL=C"), env...)
	cmd.Stdout = &stdout
	cmd.Stderr = &stderr
	cmd.WaitDelay = 30 * time.Second
	if err := cmd.Run(); err != nil {
		text := bytes.TrimSpace(append(stdout.Bytes(), stderr.Bytes()...))
		return "", fmt.Errorf(
			"%.500s: %w: %s",
			strings.Join(args, " "),
			err,
			text[max(0, len(text)-4<<10):],
		)
	}
	return stdout.String(), nil
}

// Buffer may be written while it is read: the output of a program that still runs.
type Buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// Must is Run for a test, which ends if the program fails. The last newline is cut off.
func Must(t testing.TB, args ...string) string {
	t.Helper()
	return strings.TrimSuffix(require.Value(Run(t.Context(), "", nil, args...))(t), "\n")
}

// Build compiles a program of the project, in a folder relative to its root, without cgo. Variables
// such as GOARCH=amd64 say for which machine.
func Build(ctx context.Context, out, folder string, env ...string) error {
	root, err := Project()
	if err != nil {
		return err
	}
	_, err = Run(
		ctx,
		root,
		append(env, "CGO_ENABLED=0"),
		"go",
		"build",
		"-trimpath",
		"-buildvcs=false",
		"-ldflags=-s -w",
		"-o",
		out,
		"./"+folder,
	)
	return err
}

// Project returns the project's folder: the nearest one above the test's own that has its go.mod.
func Project() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; dir != "/"; dir = filepath.Dir(dir) {
		text, _ := os.ReadFile(filepath.Join(dir, "go.mod")) //nolint:errcheck // most folders have none
		if bytes.HasPrefix(text, []byte("module github.com/driver-container/driver-container\n")) {
			return dir, nil
		}
	}
	return "", errors.New("the project's go.mod is in none of the folders above: tests run inside of its checkout")
}
