package outfile

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

func text(s string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, s)
		return err
	}
}

// content of a file, and that nothing temporary is beside it.
func content(t *testing.T, file string) string {
	t.Helper()
	b := require.Value(os.ReadFile(file))(t)
	left, err := filepath.Glob(filepath.Join(filepath.Dir(file), ".*tmp*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	return string(b)
}

func TestRegular(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, link, long := filepath.Join(dir, "file"), filepath.Join(dir, "link"), filepath.Join(dir, strings.Repeat("n", 255))
	require.NoError(t, os.Symlink("file", link))
	for _, name := range []string{file, long} {
		require.NoError(t, Check(name))
		assert.ErrorIsf(t, assert.Err(os.Lstat(name)), os.ErrNotExist, "a check created %s", name)
		require.NoError(t, Write(t.Context(), name, text("one")))
		if info, err := os.Stat(name); err != nil || info.Mode() != 0o644 || content(t, name) != "one" {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	require.NoError(t, os.Chmod(file, 0o600))
	require.NoError(t, Check(link))
	require.NoError(t, Write(t.Context(), link, text("two")))
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is gone: %v, %v", info, err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode() != 0o600 || content(t, file) != "two" {
		t.Errorf("%v, %v", info, err)
	}
	broken := errors.New("broken")
	err := Write(t.Context(), file, func(w io.Writer) error { return errors.Join(text("half")(w), broken) })
	if !errors.Is(err, broken) || content(t, file) != "two" {
		t.Errorf("after an error: %v", err)
	}
	if err := Replace(link, text("three")); err == nil || content(t, file) != "two" {
		t.Errorf("Replace followed a link: %v", err)
	}
}

// TestRefused: what is there stays as it is, and the check says it before the work.
func TestRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	require.NoError(t, os.WriteFile(path("file"), nil, 0o600))
	require.NoError(t, os.Mkdir(path("folder"), 0o700))
	require.NoError(t, os.Symlink("nowhere", path("dangling")))
	require.NoError(t, os.Symlink("loop", path("loop")))
	require.NoError(t, os.Symlink("folder", path("to-folder")))
	l := require.Value(net.Listen("unix", path("socket")))(t)
	t.Cleanup(func() { _ = l.Close() })
	refused := map[string]string{
		path("folder"): "a folder", path("to-folder"): "a folder", path("folder") + "/": "name of a folder", path("dangling"): "leads nowhere",
		path("loop"): "too many levels", path("socket"): "a socket", path("none/x"): "does not exist: create it first", path("file/x"): "no folder",
		path("file/x/y"): "no folder", "/proc/x.tar": "/proc", "/proc/self/x": "/proc/self", "/sys/x": "/sys", path(strings.Repeat("n", 256)): "too long",
		"a\x00b": "invalid",
	}
	if device := path("block"); unix.Mknod(device, unix.S_IFBLK|0o600, int(unix.Mkdev(7, 250))) == nil {
		refused[device] = "a device"
	}
	for file, want := range refused {
		before, _ := os.Lstat(file)
		assert.ErrorContainsf(t, Check(file), want, "check %q", file)
		assert.Errorf(t, Write(t.Context(), file, text("x")), "%q was written", file)
		if after, _ := os.Lstat(file); before != nil && !os.SameFile(before, after) {
			t.Errorf("%q was replaced", file)
		}
	}
}

func TestStream(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	require.NoError(t, unix.Mkfifo(pipe, 0o600))
	read := make(chan string, 1)
	go func() {
		time.Sleep(30 * time.Millisecond) // the writer is there first, and waits
		b, err := os.ReadFile(pipe)
		read <- string(b)
		assert.NoError(t, err)
	}()
	require.NoError(t, Check(pipe))
	require.NoError(t, Write(t.Context(), pipe, text(strings.Repeat("x", 1<<20))))
	assert.Equalf(t, 1<<20, len((<-read)), "bytes")
	if info, err := os.Lstat(pipe); err != nil || info.Mode()&os.ModeNamedPipe == 0 {
		t.Errorf("the pipe is gone: %v, %v", info, err)
	}
	require.NoError(t, Check("/dev/null"))
	require.NoError(t, Write(t.Context(), "/dev/null", text("x")))
	// Nodes of our own, because those of the machine are not to be lost when the code is wrong.
	full := filepath.Join(dir, "full")
	if unix.Mknod(full, unix.S_IFCHR|0o600, int(unix.Mkdev(1, 7))) != nil {
		return
	}
	if err := Write(t.Context(), full, text("x")); !errors.Is(err, unix.ENOSPC) && !errors.Is(err, unix.EACCES) {
		t.Errorf("%v", err)
	}
	if info, err := os.Lstat(full); err != nil || info.Mode()&os.ModeCharDevice == 0 {
		t.Errorf("the device is gone: %v, %v", info, err)
	}
}

// TestStreamEnds: neither a pipe without a reader nor one whose reader reads nothing outlasts the context.
func TestStreamEnds(t *testing.T) {
	t.Parallel()
	pipe := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, unix.Mkfifo(pipe, 0o600))
	for _, reader := range []bool{false, true} {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		if reader {
			f := require.Value(os.OpenFile(pipe, os.O_RDONLY|unix.O_NONBLOCK, 0))(t)
			defer f.Close()
		}
		assert.ErrorIsf(t, Write(ctx, pipe, text(strings.Repeat("x", 1<<20))), context.DeadlineExceeded, "reader %t", reader)
		cancel()
	}
}
