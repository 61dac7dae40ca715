package lock

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/logtest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
)

func acquire(t *testing.T, o Options) *Lock {
	t.Helper()
	return require.Value(Acquire(t.Context(), o))(t)
}

func TestAcquireAndRelease(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "run", "nvidia")
	o := options(dir)
	o.Self = Holder{Pod: "gpu/a", Image: "driver:1", Host: "n"}
	l := acquire(t, o)
	assert.Equalf(t, fmt.Sprintf("%d\n", os.Getpid()), testfile.Read(t, LegacyPath(o.Run)), "legacy file")
	h, held, err := peek(Path(o.Run))
	if err != nil || !held || h.PID != os.Getpid() || h.Pod != "gpu/a" || h.Image != "driver:1" || h.Host != "n" || time.Since(h.Since) > time.Minute {
		t.Errorf("peek: %+v, %v, %v", h, held, err)
	}
	assert.NoError(t, l.Lost())
	before, _ := os.Stat(Path(o.Run))
	for range 2 {
		assert.NoError(t, l.Release())
	}
	after, err := os.Stat(Path(o.Run))
	if err != nil || !os.SameFile(before, after) || after.Size() != 0 {
		t.Errorf("our own file must stay, empty: %v", err)
	}
	assert.ErrorIsf(t, assert.Err(os.Lstat(LegacyPath(o.Run))), os.ErrNotExist, "legacy file stays")
	if h, held, err := peek(Path(o.Run)); held || err != nil {
		t.Errorf("peek after release: %v, %v, %v", h, held, err)
	}
	assert.NoErrorf(t, l.Lost(), "released")
	assert.NoErrorf(t, l.Retake(), "released")
	assert.NoError(t, acquire(t, o).Release())
}

// Another instance of ours holds the lock: Acquire waits, names the holder, and takes the lock when that
// instance is killed.
func TestTakeOver(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	other := startInstance(t, dir)
	other.line(t)
	o := options(dir)
	var l logtest.Log
	o.Log, o.Timeout, o.LogInterval = l.Logger(), 2*time.Minute, 100*time.Millisecond
	want := regexp.MustCompile(fmt.Sprintf(logtest.LockWait+`pid %d, pod gpu/one, image driver:1, host node1, since `, other.Process.Pid))
	said := func() int { return len(want.FindAllString(l.String(), -1)) }
	began := time.Now()
	go func() {
		for said() < 2 && time.Since(began) < time.Minute {
			time.Sleep(5 * time.Millisecond)
		}
		_ = other.Process.Kill()
	}()
	got := acquire(t, o)
	if n := said(); n < 2 || n > 2+int(time.Since(began)/o.LogInterval) {
		t.Errorf("said %d times %q:\n%s", n, want, &l)
	}
	assert.NoError(t, got.Release())
}

func TestTimeoutAndCancel(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	other := startInstance(t, dir)
	other.line(t)
	o := options(dir)
	content, pid := testfile.Read(t, Path(o.Run)), testfile.Read(t, LegacyPath(o.Run))
	for _, o.Timeout = range []time.Duration{0, 200 * time.Millisecond} {
		_, err := Acquire(t.Context(), o)
		if held, ok := errors.AsType[*HeldError](err); !ok || !errors.Is(err, ErrHeld) || held.Holder.PID != other.Process.Pid || held.Waited < o.Timeout || held.Path != Path(o.Run) {
			t.Errorf("timeout %v: %v", o.Timeout, err)
		}
	}
	o.Timeout, o.Poll = time.Minute, time.Minute
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(100*time.Millisecond, cancel)
	began := time.Now()
	if _, err := Acquire(ctx, o); !errors.Is(err, context.Canceled) || time.Since(began) > 30*time.Second {
		t.Errorf("cancelled: %v after %v", err, time.Since(began))
	}
	assert.Equalf(t, content, testfile.Read(t, Path(o.Run)), "who lost has not written into the winner's file")
	assert.Equalf(t, pid, testfile.Read(t, LegacyPath(o.Run)), "nor into NVIDIA's")
	assert.ErrorIsf(t, assert.Err(Acquire(ctx, options(t.TempDir()))), context.Canceled, "cancelled before")
}

// While NVIDIA's container holds the lock, Acquire waits and does not touch NVIDIA's file. While we hold it,
// NVIDIA's script is refused.
func TestTheirScript(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	o := options(dir)
	other := startNVIDIAScript(t, dir)
	other.line(t)
	pid := testfile.Read(t, LegacyPath(o.Run))
	_, err := Acquire(t.Context(), o)
	held := require.ErrorAs[*HeldError](t, err)
	assert.Equal(t, LegacyPath(o.Run), held.Path)
	assert.Equal(t, other.Process.Pid, held.Holder.PID)
	assert.Equal(t, pid, testfile.Read(t, LegacyPath(o.Run)))
	if h, held, err := peek(Path(o.Run)); held || err != nil {
		t.Errorf("our own lock must be free meanwhile: %v %v", h, err)
	}
	loser := startNVIDIAScript(t, dir) // the script truncates our pid (NVIDIA's bug), but the kernel still has our lock
	assert.Equal(t, "refused", loser.line(t))
	assert.ErrorContainsf(t, assert.Err(Acquire(t.Context(), o)), "`fuser "+LegacyPath(o.Run)+"`", "they hold, no pid in the file")
	_ = other.in.Close()
	o.Timeout = time.Minute
	l := acquire(t, o)
	defer l.Release()
	assert.Equalf(t, "refused", startNVIDIAScript(t, dir).line(t), "ours holds, their script says")
	assert.Errorf(t, exec.Command("flock", "-n", Path(o.Run), "true").Run(), "flock -n on our file")
}

// Both files are unlinked by force while an instance holds them: the next instance must not believe itself
// alone.
func TestUnlinkedByForce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	o := options(dir)
	l := acquire(t, o)
	remove(t, Path(o.Run), LegacyPath(o.Run))
	assert.ErrorContains(t, l.Lost(), "removed the lock file "+Path(o.Run))
	other := startInstance(t, dir) // it polls on new files, which it creates
	time.Sleep(200 * time.Millisecond)
	_, err := Acquire(t.Context(), o)
	require.ErrorAs[*HeldError](t, err)
	for end := time.Now().Add(time.Minute); l.Lost() != nil && time.Now().Before(end); time.Sleep(7 * time.Millisecond) {
		_ = l.Retake() // the attempts of the other instance come in between sometimes
	}
	assert.NoErrorf(t, l.Lost(), "after Retake")
	if h, held, err := peek(Path(o.Run)); !held || h.PID != os.Getpid() || err != nil {
		t.Errorf("peek: %v %v %v", h, held, err)
	}
	assert.Equalf(t, "refused", startNVIDIAScript(t, dir).line(t), "their script")
	assert.NoError(t, l.Release())
	assert.Equalf(t, "held", other.line(t), "the next one says")
}

// NVIDIA's file is removed, as k8s-driver-manager does, and NVIDIA's container locks a new one before we
// notice.
func TestLegacyTakenByOther(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	o := options(dir)
	l := acquire(t, o)
	remove(t, LegacyPath(o.Run))
	other := startNVIDIAScript(t, dir)
	if got := other.line(t); !strings.HasPrefix(got, "held") {
		t.Fatal(got)
	}
	assert.ErrorContains(t, l.Lost(), "replaced the lock file "+LegacyPath(o.Run), "fuser")
	assert.ErrorIsf(t, l.Retake(), ErrHeld, "Retake")
	assert.NoError(t, l.Release())
	assert.NoErrorf(t, assert.Err(os.Stat(LegacyPath(o.Run))), "their file was removed")
}

func remove(t *testing.T, paths ...string) {
	t.Helper()
	for _, p := range paths {
		require.NoError(t, os.Remove(p))
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
			path := Path(o.Run)
			if legacy {
				path = LegacyPath(o.Run)
			}
			require.NoError(t, makeIt(path))
			if _, err := Acquire(t.Context(), o); err == nil || errors.Is(err, ErrHeld) || !strings.Contains(err.Error(), "take the driver's lock") {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	assert.ErrorContainsf(t, assert.Err(Acquire(t.Context(), options(filepath.Join(file, "x")))), "mounted and writable", "no folder")
	if _, _, err := peek(filepath.Join(file, "x")); err == nil {
		t.Error("peek below a file: no error")
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		content string
		want    Holder
		text    string
	}{
		{"", Holder{}, "a process that left no name"},
		{"4711\n", Holder{PID: 4711}, "pid 4711"},
		{"-1", Holder{}, "a process that left no name"},
		{`{"pid":12,"pod":"a\nb","since":"2026-01-02T03:04:05Z"}`, Holder{PID: 12, Pod: "a?b", Since: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)},
			"pid 12, pod a?b, since 2026-01-02T03:04:05Z"},
		{`{"pid":"x"}`, Holder{}, "a process that left no name"},
		{`{"pid":12`, Holder{}, "a process that left no name"},
	} {
		got := parse([]byte(c.content))
		if d := cmp.Diff(c.want, got); d != "" || got.String() != c.text {
			t.Errorf("%q: %s, %q", c.content, d, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("4711\n"))
	f.Add([]byte(`{"pid":1,"pod":"\u001b[2J","image":"i","host":"h","since":"2026-01-02T03:04:05Z"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		h := parse(b)
		assert.Equalf(t, false, h.PID < 0 || strings.ContainsAny(h.String(), "\n\x1b"), "%q: %q", b, h)
		out := require.Value(json.Marshal(h))(t)
		if again := parse(out); again.PID != h.PID || again.Pod != h.Pod || !again.Since.Equal(h.Since) {
			t.Errorf("%q: %v, then %v", b, h, again)
		}
	})
}
