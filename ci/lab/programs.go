package lab

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/tool"
)

// programsDir is where the guest has a disk with programs for its /usr.
const programsDir = "/lab/programs"

// disks returns the further disks of a guest, with one for Programs.
func (c *Config) disks(t testing.TB) map[string]string {
	t.Helper()
	if len(c.Programs) == 0 {
		return c.Disks
	}
	usr := t.TempDir()
	for _, program := range c.Programs {
		addProgram(t, usr, program)
	}
	disks := map[string]string{programsDir: TreeDisk(t, usr)}
	maps.Copy(disks, c.Disks)
	return disks
}

// program makes driver-guest and returns its file.
func program(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "driver-guest")
	require.NoError(t, tool.Build(t.Context(), path, "cmd/driver-guest", "GOARCH=amd64"))
	return path
}

// addProgram copies a program of this machine and its libraries to a folder for /usr.
func addProgram(t testing.TB, usr, name string) {
	t.Helper()
	program := tool.Must(t, "which", name)
	files := map[string]string{program: "bin/" + name}
	for _, library := range regexp.MustCompile(`/\S+\.so\S*`).FindAllString(tool.Must(t, "ldd", program), -1) {
		files[library] = strings.TrimPrefix(strings.TrimPrefix(library, "/usr"), "/")
	}
	for from, to := range files {
		to = filepath.Join(usr, to)
		require.NoError(t, os.MkdirAll(filepath.Dir(to), 0o755))
		tool.Must(t, "cp", "-L", from, to)
	}
}
