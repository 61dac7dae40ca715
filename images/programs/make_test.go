package programs

import (
	"archive/zip"
	"context"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/version"
)

const (
	testModule  = "example.org/driver"
	testVersion = "v1.2.3"
)

// proxy makes a folder that is a module proxy of a small module with these programs, and makes the Go tool
// use it and nothing else. It returns the sum of the module.
func proxy(t *testing.T, programs ...string) (sum string) {
	t.Helper()
	goMod := "module " + testModule + "\n\ngo 1.24\n"
	dir := testfile.Tree(t, t.TempDir(), map[string]string{
		testModule + "/@v/list": testVersion + "\n", testModule + "/@v/" + testVersion + ".mod": goMod,
		testModule + "/@v/" + testVersion + ".info": `{"Version":"` + testVersion + `"}`,
	})
	out := require.Value(os.Create(filepath.Join(dir, testModule, "@v", testVersion+".zip")))(t)
	w := zip.NewWriter(out)
	add := func(name, content string) {
		f := require.Value(w.Create(testModule + "@" + testVersion + "/" + name))(t)
		require.Value(f.Write([]byte(content)))(t)
	}
	add("go.mod", goMod)
	for _, name := range programs {
		add("cmd/"+name+"/main.go", "package main\n\nfunc main() {}\n")
	}
	require.NoError(t, errors.Join(w.Close(), out.Close()))
	modules := t.TempDir()
	t.Cleanup(func() { assert.NoError(t, writable(modules)) })
	for name, value := range map[string]string{"GOPROXY": "file://" + dir, "GONOSUMDB": "example.org", "GOFLAGS": "-trimpath", "GOMODCACHE": modules} {
		t.Setenv(name, value)
	}
	cmd := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", testModule+"@"+testVersion)
	cmd.Dir = t.TempDir()
	var said struct{ Sum string }
	require.NoError(t, json.Unmarshal(require.Value(cmd.Output())(t), &said))
	return said.Sum
}

// writable lets a folder of modules be removed: Go makes them read-only.
func writable(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			err = os.Chmod(path, 0o755) //nolint:gosec // a folder of the test
		}
		return err
	})
}

// maker finds nothing beside it, so that everything is made.
func maker(t *testing.T, sum string) (*Finder, *[]string) {
	t.Helper()
	var said []string
	m := &Maker{Module: Module{testModule, testVersion, sum}, Cache: t.TempDir(), Notify: func(text string) { said = append(said, text) }}
	return &Finder{Dirs: []string{t.TempDir()}, Version: testVersion, Make: m}, &said
}

// TestMake: what is missing is made of driver-build's own module, once, for any architecture.
func TestMake(t *testing.T) {
	sum := proxy(t, recipe.EntrypointName)
	f, said := maker(t, sum)
	f.Partial = true // the module has no driver-probe
	for range 2 {
		for _, arch := range []string{"amd64", "arm64"} {
			list := require.Value(f.Find(t.Context(), arch))(t)
			if len(list) != 1 || list[0].Name != recipe.EntrypointName || !strings.HasPrefix(list[0].Path, f.Make.folder()) {
				t.Errorf("%s: %+v", arch, list)
			}
		}
	}
	assert.Equal(t, 2, len(*said)) // a line for each architecture
	again := &Finder{Version: testVersion, Partial: true, Make: f.Make}
	t.Setenv("PATH", t.TempDir())
	require.Value(again.Find(t.Context(), "arm64"))(t) // without Go: from the cache
}

// TestMakeOfCheckout: driver-build of a checkout makes its programs of it, again if Git cannot tell what it holds, and
// takes none of another commit.
func TestMakeOfCheckout(t *testing.T) {
	src := testfile.Tree(t, t.TempDir(), map[string]string{"go.mod": "module " + testModule + "\n\ngo 1.24\n"})
	write := func(content string) {
		for _, name := range []string{recipe.EntrypointName, recipe.ProbeName} {
			testfile.Tree(t, src, map[string]string{"cmd/" + name + "/main.go": "package main\n\nfunc main() { println(\"" + content + "\") }\n"})
		}
	}
	write("one")
	cache := t.TempDir()
	find := func(module, own string) (string, int, error) {
		made := 0
		m := &Maker{Module: Module{testModule, module, ""}, Checkout: src, Cache: cache, Notify: func(string) { made++ }}
		f := &Finder{Version: own, Make: m}
		var found []recipe.Binary
		var err error
		for range 2 {
			if found, err = f.Find(t.Context(), runtime.GOARCH); err != nil {
				return "", made, err
			}
		}
		return found[0].SHA256, made, nil
	}
	first, made, err := find(develVersion, version.Development)
	require.NoError(t, err)
	assert.Equal(t, 1, made)
	write("two")
	second, made, err := find(develVersion, version.Development)
	require.NoError(t, err)
	assert.Equal(t, 1, made)
	assert.Equal(t, true, first != second)

	commit := func() *debug.BuildInfo {
		for _, args := range [][]string{{"init", "-q"}, {"add", "-A"}, {"-c", "user.name=x", "-c", "user.email=x@example.org", "commit", "-q", "-m", "x"}} {
			out, err := exec.CommandContext(t.Context(), "git", append([]string{"-C", src}, args...)...).CombinedOutput()
			require.NoErrorf(t, err, "%s", out)
		}
		build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=true", "-o", filepath.Join(cache, "p"), "./cmd/"+recipe.EntrypointName)
		build.Dir = src
		require.NoError(t, build.Run())
		return require.Value(buildinfo.ReadFile(filepath.Join(cache, "p")))(t)
	}
	info := commit()
	for _, want := range []int{1, 0} { // the second finds those of the first
		_, made, err = find(info.Main.Version, version.Of(info))
		require.NoError(t, err)
		assert.Equal(t, want, made)
	}
	write("three")
	commit()
	require.NoError(t, os.RemoveAll(filepath.Join(cache, "programs")))
	_, _, err = find(info.Main.Version, version.Of(info))
	assert.ErrorContains(t, err, "of "+src, "driver-build of "+version.Of(info)+": make both of one commit")
}

// TestMakeRefuses: driver-build never takes other content, and says what is missing.
func TestMakeRefuses(t *testing.T) {
	sum := proxy(t, recipe.EntrypointName, recipe.ProbeName)
	t.Run("other content", func(t *testing.T) {
		f, _ := maker(t, "h1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=")
		_, err := f.Find(t.Context(), "amd64")
		assert.ErrorContains(t, err, "the entrypoint for amd64", "was made of other content of version v1.2.3", sum, "archive or package")
		_, err = os.Stat(filepath.Join(f.Make.folder(), FileName(recipe.EntrypointName, "amd64")))
		assert.ErrorIs(t, err, fs.ErrNotExist)
	})
	t.Run("unknown version", func(t *testing.T) {
		f, _ := maker(t, sum)
		f.Make.Module.Version = "v9.9.9"
		_, err := f.Find(t.Context(), "amd64")
		assert.ErrorContains(t, err, "make driver-entrypoint for amd64 of example.org/driver@v9.9.9: go install: ")
	})
	t.Run("not now", func(t *testing.T) {
		f, said := maker(t, sum)
		f.Present = true
		_, err := f.Find(t.Context(), "amd64")
		assert.ErrorIs(t, err, ErrNotMade)
		assert.Equal(t, 0, len(*said))
	})
	t.Run("offline", func(t *testing.T) {
		f, _ := maker(t, sum)
		f.Make.Offline, f.Make.Module.Version = true, "v9.9.9"
		_, err := f.Find(t.Context(), "amd64")
		assert.ErrorContains(t, err, "module lookup disabled by GOPROXY=off")
	})
	t.Run("interrupted", func(t *testing.T) {
		f, _ := maker(t, sum)
		ctx, cancel := context.WithCancelCause(t.Context())
		stop := errors.New("interrupted")
		time.AfterFunc(time.Millisecond, func() { cancel(stop) })
		_, err := f.Find(ctx, "amd64")
		assert.ErrorIs(t, err, stop)
	})
	t.Run("no compiler, no Go", func(t *testing.T) {
		f, _ := maker(t, sum)
		goTool := require.Value(exec.LookPath("go"))(t)
		bin := t.TempDir()
		require.NoError(t, os.Symlink(goTool, filepath.Join(bin, "go")))
		t.Setenv("PATH", bin)
		other := map[string]string{"amd64": "arm64", "arm64": "amd64"}[runtime.GOARCH]
		_, err := f.Find(t.Context(), other)
		assert.ErrorContains(t, err, "driver-probe for "+other, "without a C compiler", "-linux-gnu-gcc (Debian: gcc-")
		require.NoError(t, os.Remove(filepath.Join(bin, "go")))
		_, err = (&Finder{Version: testVersion, Make: &Maker{Module: f.Make.Module, Cache: t.TempDir()}}).Find(t.Context(), "amd64")
		assert.ErrorContains(t, err, "there is no Go to make it with", "install Go 1", "archive or package")
	})
}
