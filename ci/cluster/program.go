package cluster

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// PushProgram compiles one of the project's programs, in a folder relative to this package, pushes an image
// with it on the PATH as name, and returns the image's name on the node.
func (c *Cluster) PushProgram(folder, name string) string {
	c.t.Helper()
	c.registry.push(c.t, name+":1", oneFile(c.t, "usr/bin/"+name, goProgram(c.t, folder)))
	return guestRegistry + "/" + name + ":1"
}

// goProgram compiles a program for the guest, in a folder relative to this package.
func goProgram(t testing.TB, folder string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), filepath.Base(folder))
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", path, "./"+folder)
	cmd.Dir, cmd.Env = sourceDir(t), append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", folder, err, out)
	}
	return path
}
