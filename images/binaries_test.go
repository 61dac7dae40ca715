package images

import (
	"bytes"
	"debug/buildinfo"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/require"
	"github.com/driver-container/driver-container/ci/testfile"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/rootfs"
)

func opener(data []byte) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }
}

func TestBinaries(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	arch := runtime.GOARCH
	file := buildStub(t, dir, recipe.EntrypointName)
	info := require.Value(buildinfo.ReadFile(file))(t)
	version := info.Main.Version
	list, err := Binaries(dir, "", version, true)(arch)
	if err != nil || len(list) != 1 || list[0].Name != recipe.EntrypointName || len(list[0].SHA256) != 64 {
		t.Errorf("%+v, %v", list, err)
	}
	if list, err = Binaries(t.TempDir(), file, version, true)(arch); err != nil || list[0].Path != file {
		t.Errorf("--entrypoint: %+v, %v", list, err)
	}
	_, err = Binaries(dir, "", "v9.9.9", true)(arch)
	assert.ErrorContains(t, err, "is of version", "v9.9.9", "make build")
	_, err = Binaries(dir, file, version, true)("riscv64")
	assert.ErrorContains(t, err, "is a program for "+arch)
	_, err = Binaries(t.TempDir(), "", version, true)(arch)
	assert.ErrorContains(t, err, "make build", "--entrypoint")
	for _, name := range []string{recipe.ProbeName, recipe.EvictName} {
		wrong := filepath.Join(dir, name+"-linux-"+arch)
		_, err = Binaries(dir, "", version, false)(arch)
		assert.ErrorContains(t, err, name+" for "+arch, wrong+": no such file", "make build", "--allow-missing-programs", "without it, ")
		require.NoError(t, os.Link(file, wrong))
		_, err = Binaries(dir, "", version, false)(arch)
		assert.ErrorContains(t, err, name+" for "+arch, "is not "+name, "--allow-missing-programs")
		if list, err = Binaries(dir, "", version, true)(arch); err != nil || slices.ContainsFunc(list, func(b recipe.Binary) bool { return b.Name == name }) {
			t.Errorf("a wrong %s: %+v, %v", name, list, err)
		}
		require.NoError(t, os.Remove(wrong))
		buildStub(t, dir, name)
	}
	if list, err = Binaries(dir, "", version, false)(arch); err != nil || len(list) != 3 {
		t.Errorf("all: %+v, %v", list, err)
	}
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

// TestOptionalBinaries: what is there goes in, in one order.
func TestOptionalBinaries(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	names := []string{recipe.EntrypointName, recipe.EvictName, recipe.ProbeName}
	want := [][]string{{recipe.EntrypointName}, {recipe.EntrypointName, recipe.EvictName}, {recipe.EntrypointName, recipe.ProbeName, recipe.EvictName}}
	for i, name := range names {
		buildStub(t, dir, name)
		list, err := Binaries(dir, "", "(devel)", true)(runtime.GOARCH)
		var got []string
		for _, b := range list {
			got = append(got, b.Name)
		}
		if err != nil || !slices.Equal(got, want[i]) {
			t.Errorf("%q, %v; want %q", got, err, want[i])
		}
	}
}

// TestWhereProgramsGo: pod specifications name driver-evict by its path.
func TestWhereProgramsGo(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "program")
	require.NoError(t, os.WriteFile(file, []byte("program"), 0o755))
	spool := require.Value(rootfs.NewSpool(t.TempDir()))(t)
	tree := rootfs.New(spool, nil)
	for name, path := range map[string]string{recipe.EntrypointName: "usr/local/bin/driver-entrypoint", recipe.EvictName: "usr/bin/driver-evict"} {
		require.NoError(t, addProgram(tree, recipe.Binary{Name: name, Path: file}))
		if e, ok := tree.Lstat(path); !ok || e.Mode != 0o755 {
			t.Errorf("%s is not at %s: %+v", name, path, e)
		}
	}
}
