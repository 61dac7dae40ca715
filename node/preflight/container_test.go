package preflight

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
)

// The folder may be named by a path with a link, as /var/run/nvidia is.
func TestRunDirByLink(t *testing.T) {
	t.Parallel()
	m := newMachine(t, map[string]string{"run/nvidia/": "", "var/run": "-> ../run"})
	testfile.Write(t, m.dir+"/proc/self/mountinfo", strings.ReplaceAll(goodMounts, "/run/nvidia", m.dir+"/run/nvidia"))
	in := m.input()
	in.RunDir = m.dir + "/var/run/nvidia"
	assert.Equal(t, OK, find(t, Run(t.Context(), in), "run-shared").Status)
}

// What is in the place of a folder that a start makes is found, whatever it is, and named with a remedy.
func TestPlacesOfFolders(t *testing.T) {
	t.Parallel()
	kinds := map[string]func(path string) error{
		"a file":           func(path string) error { return os.WriteFile(path, nil, 0o600) },
		"a FIFO":           func(path string) error { return unix.Mkfifo(path, 0o600) },
		"a dangling link":  func(path string) error { return os.Symlink("/nowhere/x", path) },
		"a link to a file": func(path string) error { return os.Symlink("/etc/passwd", path) },
		"a link to /":      func(path string) error { return os.Symlink("/", path) },
		"a folder":         func(path string) error { return os.Mkdir(path, 0o700) },
	}
	for _, place := range []string{"run/driver", "run/validations", "state/nvidia-driver", "state/nvidia-driver/roots", "state/nvidia-driver/modules"} {
		for kind, put := range kinds {
			m := newMachine(t, map[string]string{"run/": ""})
			in := m.input()
			in.RunDir = m.dir + "/run"
			testfile.Write(t, m.dir+"/proc/self/mountinfo", strings.ReplaceAll(goodMounts, "/run/nvidia", in.RunDir))
			path := filepath.Join(m.dir, place)
			require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
			require.NoError(t, put(path))
			name := "run-shared"
			if strings.HasPrefix(place, "state") {
				name = Disk
			}
			got := find(t, Run(t.Context(), in), name)
			fits := kind == "a folder" || kind == "a link to /" && place != "run/driver"
			assert.Equalf(t, fits, got.Status == OK, "%s is %s: %+v", place, kind, got)
			if !fits && (got.Status != Blocked || !strings.Contains(got.Finding, path) || !strings.Contains(got.Fix, "rm")) {
				t.Errorf("%s is %s: %+v", place, kind, got)
			}
		}
	}
}
