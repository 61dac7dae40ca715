// Package runnertest tests the behaviour that every runner of steps must have. A runner's tests
// call Conform.
//
// The suite makes its own layers around one small static program, Debian's busybox. It uses a
// runner only through runner.Runner: tests for particular properties of namespaces, of layers or of
// a daemon are in the runner's own package.
package runnertest

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/images/runner"
)

// deadline of every case, so that a runner that hangs fails its case and does not stop the tests.
const deadline = 2 * time.Minute

// Conform runs the suite. It calls open once; open returns a runner that can run steps here, or
// skips the test. The cases run in parallel.
func Conform(t *testing.T, open func(t *testing.T) runner.Runner) {
	t.Helper()
	s := &suite{runner: open(t)}
	for name, run := range map[string]func(*testing.T, *suite){
		"result":          testResult,
		"modes":           testModes,
		"refused results": testRefusedResults,
		"output of layer": testOutputOfLayer,
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
		"two at once":     testTwoAtOnce,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t, s)
		})
	}
}

type suite struct{ runner runner.Runner }

// Sleep is the script of a step that prints "started" and runs until it is killed, with a child
// that does so too.
const Sleep = "setsid sleep 3600 & echo started; exec sleep 3600"

// busybox is the program of the steps.
const busybox = "/bin/busybox"

// Step returns a step that runs a script of busybox's sh, which ends at the first error, with
// layers above busybox's. Its name is the test's. The test is skipped if there is no busybox.
func Step(t testing.TB, layers []v1.Layer, script string, args ...string) runner.Step {
	t.Helper()
	program, err := os.ReadFile(busybox)
	if err != nil {
		t.Skip("the steps run Debian's busybox-static: ", err)
	}
	lines := []string{"bin/", busybox[1:] + " * " + string(program)}
	for applet := range strings.FieldsSeq("cat chmod cut find head id ln ls mkdir mv nc readlink rm sed setsid sh sleep sort stat wc yes") {
		lines = append(lines, "bin/"+applet+" -> busybox")
	}
	return runner.Step{
		Name: t.Name(), Arch: runtime.GOARCH, Output: "/out", Env: []string{"PATH=/bin", "HOME=/"},
		Layers: append(
			[]v1.Layer{Layer(t, lines...)},
			layers...), Args: append([]string{"/bin/sh", "-ec", script}, args...),
	}
}

// write is a script that writes files, path -> content, with modes of 0600 and folders with modes
// of 0700.
func write(files map[string]string) string {
	lines := []string{"umask 077"}
	for name, content := range files {
		lines = append(
			lines,
			fmt.Sprintf("mkdir -p %s; printf %%s '%s' >%s", path.Dir(name), content, name),
		)
	}
	return strings.Join(lines, "\n")
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
	assert.Samef(t, map[string]string{}, Files(t, dir), "what a step that failed left")
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

// Files returns a result as relative path to content; a folder's path ends with a slash. It checks
// modes and types.
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
			assert.Equalf(t, 0o755|os.ModeDir, info.Mode(), "mode of %s", name)
			return nil
		}
		assert.Equalf(t, 0o644, info.Mode(), "mode of %s", name)
		b, err := os.ReadFile(p)
		files[name] = string(b)
		return err
	}))
	return files
}
