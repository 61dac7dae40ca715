package runner_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/images/runner"
	"github.com/driver-container/driver-container/images/runner/chroot"
)

func TestLines(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("y", 16<<10)
	for what, c := range map[string]struct{ in, want []string }{
		"whole":      {[]string{"a\nb\n"}, []string{"a", "b"}},
		"in pieces":  {[]string{"a", "b\nc", "", "\n\nd"}, []string{"ab", "c", "", "d"}},
		"CRLF":       {[]string{"a\r\nb\r"}, []string{"a", "b"}},
		"no UTF-8":   {[]string{"a\xffb\n"}, []string{"a�b"}},
		"too long":   {[]string{long + "z\n", "q\n"}, []string{long, "z", "q"}},
		"just long":  {[]string{long + "\nq\n"}, []string{long, "q"}},
		"long pause": {[]string{long[:5000], long[:5000], long[:5000], long[:5000]}, []string{long, long[:20000-len(long)]}},
	} {
		var said []string
		l := runner.NewLines(func(s string) { said = append(said, s) })
		for _, p := range c.in {
			assert.Equalf(t, len(p), require.Value(l.Write([]byte(p)))(t), "%s", what)
		}
		tail := l.Tail()
		assert.Samef(t, c.want, said, "%s: said", what)
		assert.Samef(t, c.want, tail, "%s: tail", what)
	}
	said := 0
	l := runner.NewLines(func(string) { said++ })
	for i := range 95 {
		fmt.Fprintln(l, i)
	}
	l.End()
	l.Add(1, []byte("one "))
	l.Add(7, []byte("two\n")) // of another stream
	if tail := l.Tail(); len(tail) != 40 || tail[0] != "57" || tail[37] != "94" || tail[38] != "two" || tail[39] != "one " || said != 95 {
		t.Errorf("%d lines, tail: %q", said, tail)
	}
}

func FuzzLines(f *testing.F) {
	f.Add([]byte("a\nb\r\n\nc"), 3)
	f.Fuzz(func(t *testing.T, b []byte, cut int) {
		var one, two []string
		l := runner.NewLines(func(s string) { one = append(one, s) })
		_, _ = l.Write(b)
		l.Tail()
		l = runner.NewLines(func(s string) { two = append(two, s) })
		cut = min(max(cut, 0), len(b))
		_, _ = l.Write(b[:cut])
		_, _ = l.Write(b[cut:])
		l.Tail()
		assert.Samef(t, one, two, "cut at %d of %q", cut, b)
	})
}

func TestFailedError(t *testing.T) {
	t.Parallel()
	why := errors.New("no such file")
	err := error(&runner.FailedError{Step: "modules", Runner: "chroot", Code: -1, Err: why, Tail: []string{"a", "b"}})
	assert.ErrorIsf(t, err, why, "the reason is lost")
	const want = "modules: the command in the runner chroot was killed or not started: no such file; its last 2 lines:\n  a\n  b"
	assert.Equalf(t, want, err.Error(), "%q", err)
	err = &runner.FailedError{Step: "modules", Runner: "chroot", Code: 2}
	assert.Equalf(t, "modules: the command in the runner chroot exited with code 2", err.Error(), "%q", err)
}

func TestCollect(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		make func(r *os.Root) error
		why  string // "": the step is valid
	}{
		"nothing": {func(*os.Root) error { return nil }, ""},
		"files": {func(r *os.Root) error {
			return errors.Join(r.MkdirAll("a/b", 0o700), r.WriteFile("a/b/c", []byte("x"), 0))
		}, ""},
		"locked": {func(r *os.Root) error { return errors.Join(r.Mkdir("a", 0o700), r.Chmod("a", 0)) }, ""},
		"hard":   {func(r *os.Root) error { return errors.Join(r.WriteFile("a", nil, 0o600), r.Link("a", "b")) }, ""},
		"link":   {func(r *os.Root) error { return r.Symlink("/etc/passwd", "a") }, "a is neither"},
		"deep":   {func(r *os.Root) error { return errors.Join(r.Mkdir("a", 0o700), r.Symlink("..", "a/up")) }, "a/up is neither"},
		"FIFO":   {func(r *os.Root) error { return unix.Mkfifo(filepath.Join(r.Name(), "p"), 0o600) }, "p is neither"},
		"setuid": {func(r *os.Root) error {
			return errors.Join(r.WriteFile("s", nil, 0o600), r.Chmod("s", 0o755|os.ModeSetuid))
		}, "s is setuid"},
		"setgid": {func(r *os.Root) error {
			return errors.Join(r.WriteFile("s", nil, 0o600), r.Chmod("s", 0o755|os.ModeSetgid))
		}, "s is setuid"},
		"endless":  {func(r *os.Root) error { return r.MkdirAll(strings.Repeat("d/", 600), 0o700) }, "a path of"},
		"too much": {func(r *os.Root) error { return os.Truncate(touch(r, "big"), 17<<30) }, "more than"},
	} {
		from, err := os.OpenRoot(t.TempDir())
		require.NoError(t, err)
		if err := c.make(from); err != nil {
			t.Fatal(what, err)
		}
		dir := t.TempDir()
		err = runner.Collect(t.Context(), from, dir)
		if c.why == "" && err != nil || c.why != "" && (err == nil || !strings.Contains(err.Error(), c.why)) {
			t.Errorf("%s: %v, want %q", what, err, c.why)
		}
		if list, _ := os.ReadDir(dir); c.why != "" && len(list) > 0 {
			t.Errorf("%s: it left %v", what, list)
		}
		from.Close()
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	because := errors.New("enough")
	cancel(because)
	from := require.Value(os.OpenRoot(t.TempDir()))(t)
	defer from.Close()
	assert.ErrorIs(t, runner.Collect(ctx, from, t.TempDir()), because)
}

func touch(r *os.Root, name string) string {
	_ = r.WriteFile(name, nil, 0o600)
	return filepath.Join(r.Name(), name)
}

// TestWithoutInit: this test program does not call chroot.Init. The runner must fail with an explanation
// instead of running all tests again and again.
func TestWithoutInit(t *testing.T) {
	t.Parallel()
	start := time.Now()
	if err := chroot.Supported(); err == nil || !errors.Is(err, runner.ErrUnavailable) && !strings.Contains(err.Error(), "chroot.Init") {
		t.Error(err)
	}
	if d := time.Since(start); d > time.Minute {
		t.Errorf("it took %v", d)
	}
}
