package lock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/node/logging/logtest"
)

func noContext() context.Context { return context.Background() }

func acquire(t *testing.T, o Options) *Lock {
	t.Helper()
	l, err := Acquire(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestAcquireAndRelease(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "run", "nvidia")
	o := options(dir)
	o.Self = Holder{Pod: "gpu/a", Image: "driver:1", Host: "n"}
	l := acquire(t, o)
	if got, want := read(t, o.Legacy), fmt.Sprintf("%d\n", os.Getpid()); got != want {
		t.Errorf("legacy file: got %q, want %q", got, want)
	}
	h, held, err := Peek(o.Path)
	if err != nil || !held || h.PID != os.Getpid() || h.Pod != "gpu/a" || h.Image != "driver:1" || h.Host != "n" || time.Since(h.Since) > time.Minute {
		t.Errorf("Peek: %+v, %v, %v", h, held, err)
	}
	if err := l.Lost(); err != nil {
		t.Error(err)
	}
	before, _ := os.Stat(o.Path)
	for range 2 {
		if err := l.Release(); err != nil {
			t.Error(err)
		}
	}
	after, err := os.Stat(o.Path)
	if err != nil || !os.SameFile(before, after) || after.Size() != 0 {
		t.Errorf("our own file must stay, empty: %v", err)
	}
	if _, err := os.Lstat(o.Legacy); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("legacy file stays: %v", err)
	}
	if h, held, err := Peek(o.Path); held || err != nil {
		t.Errorf("Peek after release: %v, %v, %v", h, held, err)
	}
	if err := l.Lost(); err != nil {
		t.Errorf("released: %v", err)
	}
	if err := l.Retake(); err != nil {
		t.Errorf("released: %v", err)
	}
	if err := acquire(t, o).Release(); err != nil {
		t.Error(err)
	}
}

// Another instance of ours holds the lock: Acquire waits, names the holder, and takes the lock when that
// instance ends in any way.
func TestTakeOver(t *testing.T) {
	t.Parallel()
	for _, end := range []string{"release", "SIGKILL"} {
		t.Run(end, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			other := startInstance(t, dir)
			other.line(t)
			o := options(dir)
			var l logtest.Log
			o.Log, o.Timeout, o.LogInterval = l.Logger(), 10*time.Second, 100*time.Millisecond
			time.AfterFunc(400*time.Millisecond, func() {
				if end == "release" {
					_ = other.in.Close()
				} else {
					_ = other.Process.Kill()
				}
			})
			got := acquire(t, o)
			want := fmt.Sprintf(logtest.LockWait+`pid %d, pod gpu/one, image driver:1, host node1, since `, other.Process.Pid)
			if n := len(regexp.MustCompile(want).FindAllString(l.String(), -1)); n < 2 || n > 6 {
				t.Errorf("said %d times %q:\n%s", n, want, &l)
			}
			if err := got.Release(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestTimeoutAndCancel(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	other := startInstance(t, dir)
	other.line(t)
	o := options(dir)
	content, pid := read(t, o.Path), read(t, o.Legacy)
	for _, o.Timeout = range []time.Duration{0, 200 * time.Millisecond} {
		_, err := Acquire(t.Context(), o)
		if held, ok := errors.AsType[*HeldError](err); !ok || !errors.Is(err, ErrHeld) || held.Holder.PID != other.Process.Pid || held.Waited < o.Timeout || held.Path != o.Path {
			t.Errorf("timeout %v: %v", o.Timeout, err)
		}
	}
	o.Timeout, o.Poll = time.Minute, time.Minute
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(100*time.Millisecond, cancel)
	began := time.Now()
	if _, err := Acquire(ctx, o); !errors.Is(err, context.Canceled) || time.Since(began) > 2*time.Second {
		t.Errorf("cancelled: %v after %v", err, time.Since(began))
	}
	if read(t, o.Path) != content || read(t, o.Legacy) != pid {
		t.Error("who lost has written into the winner's files")
	}
	if _, err := Acquire(ctx, options(t.TempDir())); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled before: %v", err)
	}
}

// While NVIDIA's container holds the lock, Acquire waits and does not touch NVIDIA's file. While we hold it,
// NVIDIA's script is refused.
func TestTheirScript(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	o := options(dir)
	other := startNVIDIAScript(t, dir)
	other.line(t)
	pid := read(t, o.Legacy)
	_, err := Acquire(t.Context(), o)
	var held *HeldError
	if !errors.As(err, &held) || held.Path != o.Legacy || held.Holder.PID != other.Process.Pid || read(t, o.Legacy) != pid {
		t.Errorf("they hold: %v", err)
	}
	if h, held, err := Peek(o.Path); held || err != nil {
		t.Errorf("our own lock must be free meanwhile: %v %v", h, err)
	}
	loser := startNVIDIAScript(t, dir) // the script truncates our pid (NVIDIA's bug), but the kernel still has our lock
	if got := loser.line(t); got != "refused" {
		t.Fatal(got)
	}
	if _, err := Acquire(t.Context(), o); !errors.As(err, &held) || held.Holder.PID != other.Process.Pid {
		t.Errorf("they hold, no pid in the file: %v", err)
	}
	_ = other.in.Close()
	o.Timeout = 5 * time.Second
	l := acquire(t, o)
	defer l.Release()
	if got := startNVIDIAScript(t, dir).line(t); got != "refused" {
		t.Errorf("ours holds, their script says %q", got)
	}
	if out, err := exec.Command("flock", "-n", o.Path, "true").CombinedOutput(); err == nil {
		t.Errorf("flock -n on our file: %s", out)
	}
}

// Both files are unlinked by force while an instance holds them: the next instance must not believe itself
// alone.
func TestUnlinkedByForce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	o := options(dir)
	l := acquire(t, o)
	remove(t, o.Path, o.Legacy)
	var lost *LostError
	if err := l.Lost(); !errors.As(err, &lost) || lost.Path != o.Path || !lost.Gone {
		t.Errorf("Lost: %v", err)
	}
	other := startInstance(t, dir) // it polls on new files, which it creates
	time.Sleep(200 * time.Millisecond)
	_, err := Acquire(t.Context(), o)
	var held *HeldError
	if !errors.As(err, &held) {
		t.Fatalf("two holders: %v", err)
	}
	for end := time.Now().Add(3 * time.Second); l.Lost() != nil && time.Now().Before(end); time.Sleep(7 * time.Millisecond) {
		_ = l.Retake() // the attempts of the other instance come in between sometimes
	}
	if err := l.Lost(); err != nil {
		t.Errorf("after Retake: %v", err)
	}
	if h, held, err := Peek(o.Path); !held || h.PID != os.Getpid() || err != nil {
		t.Errorf("Peek: %v %v %v", h, held, err)
	}
	if got := startNVIDIAScript(t, dir).line(t); got != "refused" {
		t.Errorf("their script: %s", got)
	}
	if err := l.Release(); err != nil {
		t.Error(err)
	}
	if got := other.line(t); got != "held" {
		t.Errorf("the next one says %q", got)
	}
}

// A daemon of NVIDIA's container inherited the lock and outlives the container: Acquire waits for the daemon
// and names it.
func TestTheirOrphan(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	other := start(t, exec.Command("sh", "-c", `exec 3> "$0/nvidia-driver.pid"; flock -n 3; echo $$ >&3; sleep 30 >/dev/null & echo $!`, dir))
	var orphan int
	if _, err := fmt.Sscan(other.line(t), &orphan); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Kill(orphan, unix.SIGKILL) }()
	_ = other.Process.Kill()
	_ = other.Wait()
	_, err := Acquire(t.Context(), options(dir))
	if held, ok := errors.AsType[*HeldError](err); !ok || held.Holder.PID != orphan {
		t.Errorf("want pid %d: %v", orphan, err)
	}
}

// NVIDIA's file is removed, as k8s-driver-manager does, and NVIDIA's container locks a new one before we
// notice.
func TestLegacyTakenByOther(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	o := options(dir)
	l := acquire(t, o)
	remove(t, o.Legacy)
	other := startNVIDIAScript(t, dir)
	if got := other.line(t); !strings.HasPrefix(got, "held") {
		t.Fatal(got)
	}
	var lost *LostError
	if err := l.Lost(); !errors.As(err, &lost) || lost.Path != o.Legacy || lost.Gone || !strings.Contains(err.Error(), "fuser") {
		t.Errorf("Lost: %v", err)
	}
	if err := l.Retake(); !errors.Is(err, ErrHeld) {
		t.Errorf("Retake: %v", err)
	}
	if err := l.Release(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(o.Legacy); err != nil {
		t.Errorf("their file was removed: %v", err)
	}
}

// A daemon of a killed holder lives on; it must not keep the lock.
func TestDaemonDoesNotInherit(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	other := startInstance(t, dir, "LOCK_TEST_DAEMON=1")
	var pid int
	if _, err := fmt.Sscanf(other.line(t), "daemon %d", &pid); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Kill(pid, syscall.SIGKILL) }()
	other.line(t)
	_ = other.Process.Kill()
	o := options(dir)
	o.Timeout = 5 * time.Second
	defer acquire(t, o).Release()
	if err := unix.Kill(pid, 0); err != nil {
		t.Errorf("the daemon is gone, so nothing was shown: %v", err)
	}
}

func remove(t *testing.T, paths ...string) {
	t.Helper()
	for _, p := range paths {
		if err := os.Remove(p); err != nil {
			t.Fatal(err)
		}
	}
}

func TestHostileFiles(t *testing.T) {
	t.Parallel()
	for name, makeIt := range map[string]func(path string) error{
		"link":   func(p string) error { return os.Symlink("/dev/null", p) },
		"folder": func(p string) error { return os.Mkdir(p, 0o755) },
		"fifo":   func(p string) error { return unix.Mkfifo(p, 0o644) },
	} {
		for _, legacy := range []bool{false, true} {
			o := options(t.TempDir())
			path := o.Path
			if legacy {
				path = o.Legacy
			}
			if err := makeIt(path); err != nil {
				t.Fatal(err)
			}
			if _, err := Acquire(t.Context(), o); err == nil || errors.Is(err, ErrHeld) || !strings.Contains(err.Error(), "take the driver's lock") {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Acquire(t.Context(), options(filepath.Join(file, "x"))); err == nil || !strings.Contains(err.Error(), "mounted and writable") {
		t.Errorf("no folder: %v", err)
	}
	if _, _, err := Peek(filepath.Join(file, "x")); err == nil {
		t.Error("Peek below a file: no error")
	}
}
