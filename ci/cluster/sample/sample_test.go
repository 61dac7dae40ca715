package sample

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
)

// node is a folder with the files of a node.
func node(t *testing.T, files map[string]string) string {
	t.Helper()
	return testfile.Tree(t, t.TempDir(), files)
}

func TestTake(t *testing.T) {
	t.Parallel()
	const mount = "36 28 0:31 / /run/nvidia/driver rw shared:1 - overlay overlay rw\n37 36 0:31 / /run/nvidia/driver/dev rw - tmpfs tmpfs rw\n"
	root := node(t, map[string]string{
		"run/nvidia/driver-status.json": `{"state": "serving", "ready": true, "pod": "p", "up": {"version": "535.261.03"}}`,
		"sys/module/nvidia/version":     "535.261.03\n",
		"proc/self/mountinfo":           mount,
		"run/nvidia/driver/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.535.261.03": "",
		"run/nvidia/driver/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1":          "",
		"proc/12/comm": "nvidia-driver\n", "proc/12/fdinfo/5": "lock:\t1: FLOCK  ADVISORY  WRITE 12 00:1a:2 0 EOF\n",
		"proc/12/fd/x": "", "proc/13/comm": "other\n",
	})
	require.NoError(t, os.Symlink("/run/nvidia/driver-entrypoint.lock", filepath.Join(root, "proc/12/fd/5")))
	s, ok := (&Taker{Root: root}).Take()
	if !ok || s.State != "serving" || s.Up != "535.261.03" || s.Loaded != s.Up || s.Mounts != 1 || len(s.Root) != 1 || s.Root[0] != s.Up ||
		len(s.Lockers) != 1 || s.Lockers[0] != "12" {
		t.Errorf("%+v, %t", s, ok)
	}
	if wrong := s.Judge(); len(wrong) != 0 {
		t.Error(wrong)
	}
	if empty, ok := (&Taker{Root: t.TempDir()}).Take(); !ok || !empty.Same(Sample{}) || len(empty.Judge()) != 0 {
		t.Errorf("an empty node: %+v", empty)
	}
	if s, _ := (&Taker{Root: node(t, map[string]string{"run/nvidia/driver-status.json": "{"})}).Take(); s.State != "unreadable" {
		t.Errorf("%+v", s)
	}
}

func TestJudge(t *testing.T) {
	t.Parallel()
	const a, b = "470.256.02", "535.261.03"
	good := Sample{State: "serving", Ready: true, Up: b, Loaded: b, Root: []string{b}, Mounts: 1, Lockers: []string{"12"}}
	for name, c := range map[string]struct {
		edit func(*Sample)
		want string
	}{
		"good":         {func(*Sample) {}, ""},
		"starting":     {func(s *Sample) { *s = Sample{State: "starting", Root: []string{b}, Mounts: 1} }, ""},
		"detached":     {func(s *Sample) { s.State, s.Ready, s.Lockers = "detached", false, nil }, ""},
		"not loaded":   {func(s *Sample) { s.Loaded = "" }, "without modules"},
		"mixed":        {func(s *Sample) { s.Root = []string{a} }, "driver root has"},
		"both":         {func(s *Sample) { s.Root = []string{a, b} }, "driver root has"},
		"root is gone": {func(s *Sample) { s.State, s.Ready, s.Root = "stopping", false, nil }, "driver root has"},
		"another":      {func(s *Sample) { s.Up = a }, "is loaded"},
		"two locks":    {func(s *Sample) { s.Lockers = []string{"1", "2"} }, "lock"},
		"stacked":      {func(s *Sample) { s.Mounts = 2 }, "2 driver roots"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := good
			c.edit(&s)
			got := strings.Join(s.Judge(), "; ")
			if (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
