package runnertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/images/runner"
)

// testWorld: a step sees nothing of the machine that runs it.
func testWorld(t *testing.T, s *suite) {
	const script = `pwd >/out/cwd; readlink /proc/$$/exe >/out/exe
cat /proc/$$/cmdline >/out/arguments; cat /proc/$$/environ >/out/environment
{ id -u; id -g; wc -c; wc -l </proc/net/route; sed -n 's/:.*//p' /proc/net/dev; } >/out/world
for to in 192.0.2.1 2001:db8::1; do
  if nc -w 3 $to 80; then echo "connected to $to" >>/out/world; fi
done`
	step := Step(t, nil, script, "an argument", "", "with \"quotes\" and $HOME", "ü\n")
	step.Env = []string{
		"PATH=/bin",
		"HOME=/nowhere",
		"EMPTY=",
		"ODD= a=b \"c\" $d ü",
		"HTTP_PROXY_LIKE=1",
	}
	files, _ := s.run(t, step)
	list := func(name string) []string { return strings.Split(strings.TrimSuffix(files[name], "\x00"), "\x00") }
	assert.Samef(t, step.Args, list("arguments"), "arguments")
	// BuildKit adds a variable to every command, whatever the client says: the address for tracing
	// spans.
	assert.Samef(t, step.Env, slices.DeleteFunc(list("environment"), func(v string) bool {
		return strings.HasPrefix(v, "OTEL_") || strings.HasPrefix(v, "TRACEPARENT=")
	}), "environment")
	assert.Samef(
		t,
		"0\n0\n0\n1\n",
		strings.Replace(files["world"], "    lo\n", "", 1),
		"user, group, bytes of stdin, lines of routes",
	)
	assert.Samef(t, "/\n"+busybox+"\n", files["cwd"]+files["exe"], "folder, program")
}

func testLines(t *testing.T, s *suite) {
	_, lines := s.run(
		t,
		Step(
			t,
			nil,
			`i=0; while [ $i -lt 500 ]; do echo "line $i"; echo "line $((i+1))" >&2; i=$((i+2)); done`,
		),
	)
	// The lines of stdout are in order, and so are those of stderr. Between the two, a runner may
	// have two pipes.
	var want, got [2][]string
	for i := range 500 {
		want[i%2] = append(want[i%2], fmt.Sprintf("line %d", i))
	}
	for _, line := range lines {
		var n int
		assert.NoErrorf(t, assert.Err(fmt.Sscanf(line, "line %d", &n)), "line %q", line)
		got[n%2] = append(got[n%2], line)
	}
	assert.Samef(t, want, got, "stdout, stderr")
}

// testFlood: 5 MB of output neither block nor get lost, and the tail has the end of it.
func testFlood(t *testing.T, s *suite) {
	const size = 5 << 20
	lines, err := s.fails(
		t,
		Step(
			t,
			nil,
			fmt.Sprintf(
				"yes %s | head -n %d; echo the end; exit 4",
				strings.Repeat("x", 99),
				size/100+1,
			),
		),
	)
	if n := len(strings.Join(lines, "\n")) + 1; n < size {
		t.Errorf("%d of %d bytes came", n, size)
	}
	f := failed(t, err, 4)
	if len(f.Tail) != 40 || f.Tail[39] != "the end" || f.Tail[0] != strings.Repeat("x", 99) {
		t.Errorf("tail: %d lines, %.200q", len(f.Tail), f.Tail)
	}
}

func failed(t *testing.T, err error, code int) *runner.FailedError {
	t.Helper()
	f := require.ErrorAs[*runner.FailedError](t, err)
	if f.Code != code || f.Step != t.Name() || f.Runner == "" {
		t.Errorf(
			"code %d of step %q in runner %q, want %d: %v",
			f.Code,
			f.Step,
			f.Runner,
			code,
			err,
		)
	}
	assert.Equalf(
		t,
		false,
		errors.Is(err, runner.ErrUnavailable),
		"%v says that the runner is not available",
		err,
	)
	return f
}

func testFailure(t *testing.T, s *suite) {
	lines, err := s.fails(t, Step(t, nil, "echo one; echo two; exit 3"))
	f := failed(t, err, 3)
	assert.Samef(t, []string{"one", "two"}, lines, "lines")
	assert.Samef(t, []string{"one", "two"}, f.Tail, "tail")
	if !strings.Contains(err.Error(), "code 3") || !strings.Contains(err.Error(), "two") {
		t.Errorf("message: %v", err)
	}
}

func testMissingProgram(t *testing.T, s *suite) {
	step := Step(t, nil, "")
	step.Args = []string{"/bin/none"}
	_, err := s.fails(t, step)
	f := failed(t, err, -1)
	if f.Err == nil || !strings.Contains(err.Error(), "/bin/none") {
		t.Errorf("message: %v", err)
	}
}

// testKilled: the kernel ignores signals that process 1 sends to itself; then sh ends as one that
// reports a killed child.
func testKilled(t *testing.T, s *suite) {
	_, err := s.fails(t, Step(t, nil, "kill -9 $$; exit 137"))
	f := failed(t, err, -1)
	if f.Err == nil || !strings.Contains(err.Error(), "memory") {
		t.Errorf("a command killed by SIGKILL: %v", err)
	}
}

// testBackground: a step ends with its command, whatever processes that left running.
func testBackground(t *testing.T, s *suite) {
	start := time.Now()
	files, _ := s.run(t, Step(t, nil, "setsid sleep 3600 & : >/out/done"))
	assert.Samef(t, map[string]string{"done": ""}, files, "result")
	if d := time.Since(start); d > 30*time.Second {
		t.Errorf("it took %v", d)
	}
}

func testCancel(t *testing.T, s *suite) {
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	because := errors.New("the user pressed Ctrl-C")
	var once sync.Once
	var at time.Time
	timer := time.AfterFunc(deadline, func() { cancel(errors.New("it never started")) })
	defer timer.Stop()
	dir := t.TempDir()
	err := s.runner.Run(ctx, Step(t, nil, Sleep), dir, func(string) {
		once.Do(func() { at = time.Now(); cancel(because) })
	})
	if d := time.Since(at); !errors.Is(err, because) || d > 30*time.Second {
		t.Errorf("%v after %v", err, d)
	}
	if _, ok := errors.AsType[*runner.FailedError](err); ok {
		t.Errorf("the command is blamed for being cancelled: %v", err)
	}
	assert.Samef(t, map[string]string{}, Files(t, dir), "result")
}

func testTwoAtOnce(t *testing.T, s *suite) {
	var wg sync.WaitGroup
	both := make(chan struct{}, 2)
	for _, name := range []string{"one", "two"} {
		wg.Go(func() {
			dir := t.TempDir()
			ctx, cancel := context.WithTimeout(t.Context(), deadline)
			defer cancel()
			step := Step(t, nil, "echo started; sleep 0.5; printf %s "+name+" >/out/name")
			err := s.runner.Run(ctx, step, dir, func(string) { both <- struct{}{} })
			if err != nil {
				t.Error(err)
				return
			}
			assert.Samef(t, map[string]string{"name": name}, Files(t, dir), "%s", name)
		})
	}
	wg.Wait()
	assert.Equalf(t, 2, len(both), "started")
}
