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

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/require"
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
	s := &suite{runner: open(t), program: ProgramLayer(t)}
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

type suite struct {
	runner  runner.Runner
	program v1.Layer
}

// step returns a step that runs the program, with layers above it.
func (s *suite) step(t *testing.T, layers []v1.Layer, args ...string) runner.Step {
	t.Helper()
	return Step(t, s.program, layers, args...)
}

// Step returns a step that runs the suite's program with some arguments, for the tests of one runner. Its
// name is the test's.
func Step(t testing.TB, program v1.Layer, layers []v1.Layer, args ...string) runner.Step {
	t.Helper()
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

// ProgramLayer returns a layer that has only the suite's program, at StepProgram.
func ProgramLayer(t testing.TB) v1.Layer {
	t.Helper()
	return Layer(t, "bin/", strings.TrimPrefix(StepProgram, "/")+" * "+string(Program(t)))
}

// Program builds the suite's program and returns it. It skips the test if there is neither a Go toolchain nor
// ProgramEnv.
func Program(t testing.TB) []byte {
	t.Helper()
	built := os.Getenv(ProgramEnv)
	if built == "" {
		if _, err := exec.LookPath("go"); err != nil {
			t.Skip("the program of the steps is built with the Go toolchain: ", err)
		}
		dir := t.TempDir()
		built = filepath.Join(dir, "step")
		require.NoError(t, os.WriteFile(filepath.Join(dir, "main.go"), stepSource, 0o600))
		cmd := exec.Command("go", "build", "-ldflags=-s -w", "-o", built, "main.go")
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GO111MODULE=off")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("build the program of the steps: %v\n%s", err, out)
		}
	}
	return require.Value(os.ReadFile(built))(t)
}
