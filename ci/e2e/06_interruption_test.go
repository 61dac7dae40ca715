package e2e

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/require"
)

// After an interruption of any kind the next build succeeds; two builds at once are both right; the error
// names a full disk as the cause.
func Test06Interruption(t *testing.T) {
	journey(t)
	const system, driver = "debian11", "418.226.00"
	from, want := base(t, system, "amd64"), debian(t, system, driver).digest
	cache := freshCache(t, system, driver, from)
	args := func(cache, out string) []string {
		return []string{program(t), "--os", system, "--driver", driver, "--base", from, "--cache", cache, "--progress", "plain",
			"--matrix", filepath.Join(repository(t), "matrix.yaml"), "--output", "oci:" + out}
	}
	out := filepath.Join(scratch(t), "stopped")
	r := stopped(t, args(cache, out), cache, syscall.SIGINT)
	if r.code != 130 || r.took > 1500*time.Millisecond {
		t.Errorf("SIGINT: want exit code 130 within a second of it\n%s", r)
	}
	nothingIn(t, out)
	nothingIn(t, filepath.Join(cache, "tmp"))
	if r := stopped(t, args(cache, out), cache, syscall.SIGKILL); r.code != -1 {
		t.Errorf("SIGKILL: it had ended before\n%s", r)
	}
	nothingIn(t, out)

	var both sync.WaitGroup
	results := make([]result, 2)
	outs := []string{filepath.Join(scratch(t), "one"), filepath.Join(scratch(t), "two")}
	for n := range results {
		both.Go(func() { results[n] = command{args: args(cache, outs[n])}.do(t) })
	}
	both.Wait()
	for n, r := range results {
		if r.code != 0 || digest(t, r) != want {
			t.Errorf("build %d of two at once on a cache that a killed build left: want %s\n%s", n+1, want, r)
		}
		sh(t, "skopeo", "--insecure-policy", "copy", "oci:"+outs[n]+":"+driver+"-"+system, "dir:"+filepath.Join(scratch(t), "copy"))
	}
	nothingIn(t, filepath.Join(cache, "tmp"))
	wholeBlobs(t, cache)
	t.Run("full cache", func(t *testing.T) {
		fullDisk(t, func(disk string) []string { return args(disk, filepath.Join(disk, "out")) })
	})
	t.Run("full output", func(t *testing.T) {
		fullDisk(t, func(disk string) []string { return args(cache, filepath.Join(disk, "out")) })
	})
}

// stopped starts a command, sends it a signal while it makes layers, and returns how long it took to end
// after that.
func stopped(t *testing.T, args []string, cache string, signal syscall.Signal) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = workspace(t), &stdout, &stderr
	require.NoError(t, cmd.Start())
	for deadline := time.Now().Add(time.Minute); !writing(t, filepath.Join(cache, "tmp")) && time.Now().Before(deadline); {
		time.Sleep(20 * time.Millisecond)
	}
	start := time.Now()
	require.NoError(t, cmd.Process.Signal(signal))
	err := cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	t.Logf("%s: ended after %d ms", signal, time.Since(start).Milliseconds())
	return result{command: args, code: cmd.ProcessState.ExitCode(), stdout: stdout.String(), stderr: stderr.String(), took: time.Since(start)}
}

// writing says whether a layer is being made: a file of some size in the cache's folder for unfinished ones.
func writing(t *testing.T, dir string) bool {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		return false
	}
	for _, d := range list {
		if info, err := d.Info(); err == nil && info.Size() > 4<<20 {
			return true
		}
	}
	return false
}

// nothingIn checks that a folder is absent or holds no file; empty folders in it are harmless.
func nothingIn(t *testing.T, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			t.Errorf("%s should not be there", name)
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
}

// wholeBlobs checks that the content of every blob in a cache has the digest that is its name.
func wholeBlobs(t *testing.T, cache string) {
	t.Helper()
	dir := filepath.Join(cache, "blobs", "sha256")
	list := require.Value(os.ReadDir(dir))(t)
	names := make([]string, len(list))
	for n, d := range list {
		names[n] = d.Name()
	}
	if len(names) == 0 {
		return
	}
	for line := range strings.Lines(command{dir: dir, args: append([]string{"sha256sum"}, names...)}.want(t, 0).stdout) {
		if have, name, _ := strings.Cut(strings.TrimSpace(line), "  "); have != name {
			t.Errorf("blob %s of the cache has digest %s", name, have)
		}
	}
}

// fullDisk runs a build on a full disk: it fails, names the cause, and leaves no incomplete file there.
func fullDisk(t *testing.T, args func(disk string) []string) {
	disk := filepath.Join(scratch(t), "disk")
	require.NoError(t, os.Mkdir(disk, 0o755))
	require.NoError(t, syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=64m"))
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(disk, syscall.MNT_DETACH)) })
	r := command{args: args(disk)}.do(t)
	if r.code <= 0 || !strings.Contains(r.stderr, "no space left") && !strings.Contains(r.stderr, "full") {
		t.Errorf("want a failure that says that the disk is full\n%s", r)
	}
	t.Logf("exit code %d: %s", r.code, lastLine(r.stderr))
	nothingIn(t, filepath.Join(disk, "tmp"))
	if spools, err := filepath.Glob(filepath.Join(disk, "spool-*")); err != nil || len(spools) > 0 {
		t.Errorf("left behind: %v %v", spools, err)
	}
	// Complete blobs may stay, for the next attempt; an index that refers to missing ones may not.
	assert.Errorf(t, assert.Err(os.Stat(filepath.Join(disk, "out", "index.json"))), "the output has an index.json")
	for _, dir := range []string{disk, filepath.Join(disk, "out")} {
		if _, err := os.Stat(filepath.Join(dir, "blobs", "sha256")); err == nil {
			wholeBlobs(t, dir)
		}
	}
}

func lastLine(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return lines[len(lines)-1]
}
