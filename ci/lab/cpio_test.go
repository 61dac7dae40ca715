package lab

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

// TestCpio unpacks the archive with the system's cpio program.
func TestCpio(t *testing.T) {
	t.Parallel()
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		t.Skip("busybox, which has a cpio, is not installed")
	}
	var b bytes.Buffer
	c := cpio{w: &b}
	c.dir("dev")
	files := map[string]string{"init": "#!x", "boot/a.ko": "12345", "boot/sub/empty": "", "boot/sub/b": string(make([]byte, 5000))}
	for _, name := range sortedKeys(files) {
		c.file(name, 0o755, []byte(files[name]))
	}
	require.NoError(t, c.close())
	if b.Len()%4 != 0 {
		t.Errorf("%d bytes: a second archive could not follow", b.Len())
	}
	dir := t.TempDir()
	cmd := exec.Command(busybox, "cpio", "-i", "-H", "newc")
	cmd.Dir, cmd.Stdin = dir, &b
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	got := map[string]string{}
	for name := range files {
		text, err := os.ReadFile(filepath.Join(dir, name))
		assert.NoError(t, err)
		got[name] = string(text)
	}
	assert.Same(t, files, got)
	st, err := os.Stat(filepath.Join(dir, "init"))
	if err != nil || st.Mode() != 0o755 {
		t.Errorf("init: %v %v", st, err)
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestCpioError(t *testing.T) {
	t.Parallel()
	c := cpio{w: full{}}
	c.file("a", 0o644, nil)
	assert.Errorf(t, c.close(), "the writer's error is lost")
}
