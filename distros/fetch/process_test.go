package fetch

import (
	"bufio"
	"bytes"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

// process prepares a child that downloads one file.
func process(t *testing.T, store string, f File) *exec.Cmd {
	t.Helper()
	self := require.Value(os.Executable())(t)
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), "FETCH_TEST_CHILD=1", "FETCH_TEST_STORE="+store, "FETCH_TEST_URL="+f.URL,
		"FETCH_TEST_SHA256="+f.SHA256, "FETCH_TEST_SIZE="+strconv.FormatInt(f.Size, 10))
	return cmd
}

func TestTwoProcesses(t *testing.T) {
	t.Parallel()
	data := content(400_000)
	srv := serve(t, func(_ int, w http.ResponseWriter, r *http.Request) {
		time.Sleep(200 * time.Millisecond) // the others start in the meantime
		whole(w, r, data)
	})
	c := newClient(t)
	f := File{URL: srv.URL, SHA256: digest(data), Size: int64(len(data))}
	var children []*exec.Cmd
	var outputs []*bytes.Buffer
	for range 3 {
		cmd, out := process(t, c.Store.dir, f), &bytes.Buffer{}
		cmd.Stdout, cmd.Stderr = out, out
		require.NoError(t, cmd.Start())
		children, outputs = append(children, cmd), append(outputs, out)
	}
	get(t, c, f)
	for i, cmd := range children {
		if err := cmd.Wait(); err != nil {
			t.Errorf("process %d: %v\n%s", i, err, outputs[i])
		}
	}
	assert.Equalf(t, 1, srv.count(), "downloads by 4 processes")
	checkEmpty(t, c.Store, partialDir)
}

// A process that holds the download without progress (stopped by a debugger, for example) does not block
// others for ever.
func TestStuckProcess(t *testing.T) {
	t.Parallel()
	data := content(1000)
	srv := serve(t, func(_ int, w http.ResponseWriter, r *http.Request) { whole(w, r, data) })
	c := newClient(t)
	c.Stall, c.Attempts = 100*time.Millisecond, 50 // a busy machine stalls, too
	held, err := tryLock(filepath.Join(c.Store.dir, partialDir, digest(data)), os.O_CREATE)
	if err != nil || held == nil {
		t.Fatal(held, err)
	}
	defer held.Close() //nolint:errcheck // a test
	_, _, err = c.Get(t.Context(), File{URL: srv.URL, SHA256: digest(data)}, nil)
	assert.ErrorIs(t, err, ErrUnreachable)
	assert.ErrorContains(t, err, held.Name()+" and makes no progress: end it")
}

// TestPausedProcess: a process that waits as long as a server asked it to is not stuck.
func TestPausedProcess(t *testing.T) {
	t.Parallel()
	data := content(1000)
	srv := serve(t, func(_ int, w http.ResponseWriter, r *http.Request) { whole(w, r, data) })
	c := newClient(t)
	c.Stall, c.Attempts = time.Second, 50 // the longest pause is of two minutes, and the usual stall of one
	held, err := tryLock(filepath.Join(c.Store.dir, partialDir, digest(data)), os.O_CREATE)
	if err != nil || held == nil {
		t.Fatal(held, err)
	}
	time.AfterFunc(2*c.Stall, func() { _ = held.Close() })
	get(t, c, File{URL: srv.URL, SHA256: digest(data)})
}

func TestKilledProcess(t *testing.T) {
	t.Parallel()
	data := content(400_000)
	srv := serve(t, func(n int, w http.ResponseWriter, r *http.Request) {
		if n == 1 {
			w.Header().Set("ETag", `"`+digest(data)[:8]+`"`)
			w.Header().Set("Content-Length", strconv.Itoa(len(data)))
			_, _ = w.Write(data[:150_000])
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
			return
		}
		whole(w, r, data)
	})
	c := newClient(t)
	f := File{URL: srv.URL, SHA256: digest(data), Size: int64(len(data))}
	cmd := process(t, c.Store.dir, f)
	out := require.Value(cmd.StdoutPipe())(t)
	require.NoError(t, cmd.Start())
	lines := bufio.NewScanner(out)
	for lines.Scan() && lines.Text() != "progress 150000" {
		t.Log(lines.Text())
	}
	require.NoError(t, cmd.Process.Signal(syscall.SIGKILL))
	_ = cmd.Wait() // killed
	checkEmpty(t, c.Store, blobsDir)
	get(t, c, f)
	assert.Equalf(t, "bytes=150000-", srv.request(1).Header.Get("Range"), "Range after the kill")
}

func mountTiny(dir string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	return unix.Mount("tmpfs", dir, "tmpfs", 0, "size=128k")
}

func TestDiskFull(t *testing.T) {
	t.Parallel()
	data := content(400_000)
	srv := serve(t, func(_ int, w http.ResponseWriter, r *http.Request) { whole(w, r, data) })
	dir := t.TempDir()
	for name, url := range map[string]string{"download": srv.URL, "copy": "file://" + filepath.Join(t.TempDir(), "f")} {
		if path, ok := strings.CutPrefix(url, "file://"); ok {
			require.NoError(t, os.WriteFile(path, data, 0o600))
		}
		cmd := process(t, dir, File{URL: url, SHA256: digest(data), Size: int64(len(data))})
		cmd.Env = append(cmd.Env, "FETCH_TEST_TMPFS="+dir)
		cmd.SysProcAttr = &syscall.SysProcAttr{ // a mount of its own, which ends with the process; needs no root
			Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNS,
			UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
		}
		out, err := cmd.CombinedOutput()
		text := string(out)
		if strings.Contains(text, "SKIP") || err != nil && len(out) == 0 {
			t.Skipf("no user namespace with a tmpfs on this machine: %v %s", err, text)
		}
		if err == nil || !strings.Contains(text, "no space left on device") || !strings.Contains(text, dir) || strings.Contains(text, "unreachable") ||
			strings.Count(text, "[] <nil>") != 2 {
			t.Errorf("%s: %v: %s; want an error that names the full disk", name, err, text)
		}
	}
}
