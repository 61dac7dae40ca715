package images

import (
	"bytes"
	"debug/buildinfo"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
)

func opener(data []byte) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }
}

func TestBinaries(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	arch := runtime.GOARCH
	file := filepath.Join(dir, EntrypointName+"-linux-"+arch)
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
	if err != nil || len(list) != 1 || list[0].Name != EntrypointName || len(list[0].SHA256) != 64 {
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
	if err := os.Link(file, filepath.Join(dir, ProbeName+"-linux-"+arch)); err != nil {
		t.Fatal(err)
	}
	_, err = Binaries(dir, "", version)(arch)
	fails(t, err, "the probe for "+arch, "is not driver-probe")
}
