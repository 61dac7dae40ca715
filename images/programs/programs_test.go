package programs

import (
	"debug/buildinfo"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/version"
)

// find looks in one folder, and makes nothing.
func find(t *testing.T, dir, version string, partial bool) func(arch string) ([]recipe.Binary, error) {
	t.Helper()
	f := &Finder{Dirs: []string{dir}, Version: version, Partial: partial}
	return func(arch string) ([]recipe.Binary, error) { return f.Find(t.Context(), arch) }
}

func TestFind(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	arch := runtime.GOARCH
	file := buildStub(t, dir, recipe.EntrypointName)
	info := require.Value(buildinfo.ReadFile(file))(t)
	version := version.Of(info)
	list, err := find(t, dir, version, true)(arch)
	if err != nil || len(list) != 1 || list[0].Name != recipe.EntrypointName || len(list[0].SHA256) != 64 {
		t.Errorf("%+v, %v", list, err)
	}
	_, err = find(t, dir, "v9.9.9", true)(arch)
	assert.ErrorContains(t, err, "is of version", "v9.9.9", "make build")
	require.NoError(t, os.Link(file, filepath.Join(dir, recipe.EntrypointName+"-linux-riscv64")))
	_, err = find(t, dir, version, true)("riscv64")
	assert.ErrorContains(t, err, "is a program for "+arch)
	_, err = find(t, t.TempDir(), version, true)(arch)
	assert.ErrorContains(t, err, "make build")
	const name = recipe.ProbeName
	wrong := filepath.Join(dir, name+"-linux-"+arch)
	_, err = find(t, dir, version, false)(arch)
	assert.ErrorContains(t, err, name+" for "+arch, "no "+name+"-linux-"+arch, "make build")
	require.NoError(t, os.Link(file, wrong))
	_, err = find(t, dir, version, false)(arch)
	assert.ErrorContains(t, err, name+" for "+arch, "is not "+name, "make build")
	if list, err = find(t, dir, version, true)(arch); err != nil || len(list) != 1 {
		t.Errorf("a wrong %s: %+v, %v", name, list, err)
	}
	require.NoError(t, os.Remove(wrong))
	buildStub(t, dir, name)
	if list, err = find(t, dir, version, false)(arch); err != nil || len(list) != 2 || list[1].Name != name {
		t.Errorf("all: %+v, %v", list, err)
	}
}

// TestGuest: the program for guests is found as those for images are, and only for amd64.
func TestGuest(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := buildStub(t, dir, GuestName)
	info := require.Value(buildinfo.ReadFile(file))(t)
	f := &Finder{Dirs: []string{dir}, Version: version.Of(info)}
	found, err := f.Guest(t.Context())
	if runtime.GOARCH == "amd64" {
		require.NoError(t, err)
		assert.Equal(t, file, found)
	}
	f.Dirs = []string{t.TempDir()}
	_, err = f.Guest(t.Context())
	assert.ErrorContains(t, err, "driver-guest: no driver-guest-linux-amd64 in "+f.Dirs[0], "make build")
}

// buildStub builds an empty program of the right name for this machine into a folder, as make build names it.
func buildStub(t *testing.T, dir, name string) string {
	t.Helper()
	file := filepath.Join(dir, name+"-linux-"+runtime.GOARCH)
	src := testfile.Tree(t, t.TempDir(), map[string]string{"go.mod": "module example.org/driver\n", "cmd/" + name + "/main.go": "package main\n\nfunc main() {}\n"})
	build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", file, "./cmd/"+name)
	build.Dir, build.Env = src, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return file
}
