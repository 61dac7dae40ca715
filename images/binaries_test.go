package images

import (
	"bytes"
	"debug/buildinfo"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

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
	file := filepath.Join(dir, recipe.EntrypointName+"-linux-"+arch)
	build := exec.Command("go", "build", "-buildvcs=false", "-o", file, "../cmd/driver-entrypoint")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	info, err := buildinfo.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	version := info.Main.Version
	list, err := Binaries(dir, "", version)(arch)
	if err != nil || len(list) != 1 || list[0].Name != recipe.EntrypointName || len(list[0].SHA256) != 64 {
		t.Errorf("%+v, %v", list, err)
	}
	if list, err = Binaries(t.TempDir(), file, version)(arch); err != nil || list[0].Path != file {
		t.Errorf("--entrypoint: %+v, %v", list, err)
	}
	_, err = Binaries(dir, "", "v9.9.9")(arch)
	fails(t, err, "is of version", "v9.9.9", "make build")
	_, err = Binaries(dir, file, version)("riscv64")
	fails(t, err, "is a program for "+arch)
	_, err = Binaries(t.TempDir(), "", version)(arch)
	fails(t, err, "make build", "--entrypoint")
	for _, name := range []string{recipe.EvictName, recipe.ProbeName} {
		if err := os.Link(file, filepath.Join(dir, name+"-linux-"+arch)); err != nil {
			t.Fatal(err)
		}
		_, err = Binaries(dir, "", version)(arch)
		fails(t, err, name+" for "+arch, "is not "+name)
	}
}

// TestOptionalBinaries: what is there goes in, in one order. The programs are empty ones of the right names.
func TestOptionalBinaries(t *testing.T) {
	t.Parallel()
	src, dir := t.TempDir(), t.TempDir()
	write := func(name, text string) {
		path := filepath.Join(src, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	write("go.mod", "module example.org/driver\n")
	names := []string{recipe.EntrypointName, recipe.EvictName, recipe.ProbeName}
	want := [][]string{{recipe.EntrypointName}, {recipe.EntrypointName, recipe.EvictName}, {recipe.EntrypointName, recipe.ProbeName, recipe.EvictName}}
	for i, name := range names {
		write("cmd/"+name+"/main.go", "package main\n\nfunc main() {}\n")
		build := exec.Command("go", "build", "-buildvcs=false", "-o", filepath.Join(dir, name+"-linux-"+runtime.GOARCH), "./cmd/"+name)
		build.Dir, build.Env = src, append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		list, err := Binaries(dir, "", "(devel)")(runtime.GOARCH)
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
	if err := os.WriteFile(file, []byte("program"), 0o755); err != nil {
		t.Fatal(err)
	}
	spool, err := rootfs.NewSpool(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	tree := rootfs.New(spool, nil)
	for name, path := range map[string]string{recipe.EntrypointName: "usr/local/bin/driver-entrypoint", recipe.EvictName: "usr/bin/driver-evict"} {
		if err := addProgram(tree, recipe.Binary{Name: name, Path: file}); err != nil {
			t.Fatal(err)
		}
		if e, ok := tree.Lstat(path); !ok || e.Mode != 0o755 {
			t.Errorf("%s is not at %s: %+v", name, path, e)
		}
	}
}
