// Package runnertest tests the behaviour that every runner of steps must have. A runner's tests call Conform.
//
// The suite makes its own layers around one small static program, which it builds with the Go toolchain. It
// uses no C compiler, no busybox and no real system image, and it uses a runner only through runner.Runner:
// tests for particular properties of namespaces or of a daemon are in the runner's own package.
package runnertest

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/images/runner"
)

//go:embed testdata/step/main.go
var stepSource []byte

// StepProgram is the path of the suite's program in a root.
const StepProgram = "/bin/step"

// deadline of every case, so that a runner that hangs fails its case and does not stop the tests.
const deadline = 2 * time.Minute

// Conform runs the suite. It calls open once; open returns a runner that can run steps here, or skips the
// test. The cases run in parallel. without names cases that are known to fail with this runner.
func Conform(t *testing.T, open func(t *testing.T) runner.Runner, without ...string) {
	t.Helper()
	s := &suite{runner: open(t)}
	for name, run := range map[string]func(*testing.T, *suite){
		"result":          testResult,
		"modes":           testModes,
		"refused results": testRefusedResults,
		"output of layer": testOutputOfLayer,
		"layers":          testLayers,
		"absolute links":  testAbsoluteLinks,
		"damaged layer":   testDamagedLayer,
		"world":           testWorld,
		"root is written": testRootIsWritten,
		"lines":           testLines,
		"flood":           testFlood,
		"failure":         testFailure,
		"missing program": testMissingProgram,
		"killed":          testKilled,
		"background":      testBackground,
		"cancel":          testCancel,
		"cancelled":       testCancelled,
		"two at once":     testTwoAtOnce,
		"bad steps":       testBadSteps,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if slices.Contains(without, name) {
				t.Skip("this runner is known to do otherwise")
			}
			run(t, s)
		})
	}
}

type suite struct{ runner runner.Runner }

// Step returns a step that runs the suite's program with some arguments, with layers above the program's. Its
// name is the test's.
func Step(t testing.TB, layers []v1.Layer, args ...string) runner.Step {
	t.Helper()
	program := Layer(t, "bin/", strings.TrimPrefix(StepProgram, "/")+" * "+Program(t))
	return runner.Step{
		Name: t.Name(), Arch: runtime.GOARCH, Output: "/out", Env: []string{"PATH=/bin", "HOME=/"},
		Layers: append([]v1.Layer{program}, layers...), Args: append([]string{StepProgram}, args...),
	}
}

// run executes a step that must succeed, and returns the result and the printed lines.
func (s *suite) run(t *testing.T, step runner.Step) (files map[string]string, lines []string) {
	t.Helper()
	dir := t.TempDir()
	lines, err := s.try(t, step, dir)
	require.NoErrorf(t, err, "Run")
	return Files(t, dir), lines
}

// fails executes a step that must fail, checks that there is no result, and returns the error.
func (s *suite) fails(t *testing.T, step runner.Step) (lines []string, err error) {
	t.Helper()
	dir := t.TempDir()
	lines, err = s.try(t, step, dir)
	if err == nil {
		t.Fatal("Run succeeded")
	}
	if got := Files(t, dir); len(got) > 0 {
		t.Errorf("a step that failed left %v", got)
	}
	return lines, err
}

func (s *suite) try(t *testing.T, step runner.Step, dir string) ([]string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	var mu sync.Mutex
	var lines []string
	err := s.runner.Run(ctx, step, dir, func(line string) {
		if !mu.TryLock() {
			t.Error("two goroutines say lines at once")
			return
		}
		defer mu.Unlock()
		lines = append(lines, line)
	})
	return lines, err
}

// Files returns a result as relative path to content; a folder's path ends with a slash. It checks modes and
// types.
func Files(t testing.TB, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err != nil || p == dir {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(dir, p)
		if d.IsDir() {
			files[name+"/"] = ""
			if info.Mode() != 0o755|os.ModeDir {
				t.Errorf("%s has mode %v, want 0755", name, info.Mode())
			}
			return nil
		}
		if info.Mode() != 0o644 {
			t.Errorf("%s has mode %v, want 0644", name, info.Mode())
		}
		b, err := os.ReadFile(p)
		files[name] = string(b)
		return err
	}))
	return files
}

// decode parses a JSON file of a result.
func decode[T any](t *testing.T, files map[string]string, name string) (v T) {
	t.Helper()
	if err := json.Unmarshal([]byte(files[name]), &v); err != nil {
		t.Fatalf("%s of %v: %v", name, slices.Sorted(maps.Keys(files)), err)
	}
	return v
}

func diff(t *testing.T, what string, want, got any) {
	t.Helper()
	assert.Samef(t, want, got, "%s (-want +got)", what)
}

// ProgramEnv names a file with the built program of the suite, for a machine or a user without the Go
// toolchain.
const ProgramEnv = "RUNNERTEST_PROGRAM"

// Program returns the suite's program, which it builds once. It skips the test if there is neither a Go toolchain nor
// ProgramEnv.
func Program(t testing.TB) string {
	t.Helper()
	if os.Getenv(ProgramEnv) == "" {
		if _, err := exec.LookPath("go"); err != nil {
			t.Skip("the program of the steps is built with the Go toolchain: ", err)
		}
	}
	return require.Value(program())(t)
}

var program = sync.OnceValues(func() (string, error) {
	built := os.Getenv(ProgramEnv)
	if built == "" {
		dir, err := os.MkdirTemp("", "runnertest-")
		if err != nil {
			return "", err
		}
		defer os.RemoveAll(dir) //nolint:errcheck // a folder of the tests
		built = filepath.Join(dir, "step")
		cmd := exec.Command("go", "build", "-ldflags=-s -w", "-o", built, "main.go")
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GO111MODULE=off")
		if err := os.WriteFile(filepath.Join(dir, "main.go"), stepSource, 0o600); err != nil {
			return "", err
		}
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("build the program of the steps: %w\n%s", err, out)
		}
	}
	b, err := os.ReadFile(built)
	return string(b), err
})
