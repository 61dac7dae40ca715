package buildkit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/require"
	"github.com/driver-container/driver-container/ci/runnertest"
	"github.com/driver-container/driver-container/images/runner"
)

// fake is a daemon with configured behaviour. Like a real one it answers nothing after it is closed.
type fake struct {
	is   worker
	down error                       // it does not answer; this is the error
	do   func(context.Context) error // runs as the step; nil: the step succeeds

	mu     sync.Mutex
	solves int
	closed bool
}

func (f *fake) worker(ctx context.Context) (worker, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return worker{}, errors.New("closed")
	}
	if f.down != nil {
		return worker{}, f.down
	}
	return f.is, context.Cause(ctx)
}

func (f *fake) solve(ctx context.Context, j job) error {
	f.mu.Lock()
	f.solves++
	do := f.do
	if f.closed {
		do = func(context.Context) error { return errors.New("closed") }
	}
	f.mu.Unlock()
	if err := os.WriteFile(filepath.Join(j.dir, "result"), nil, 0o600); err != nil {
		return err
	}
	j.output("started")
	if do == nil {
		return nil
	}
	return do(ctx)
}

func (f *fake) close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return errors.New("closed twice")
	}
	f.closed = true
	return nil
}

func (f *fake) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.solves
}

func amd64() *fake {
	return &fake{is: worker{native: "amd64", platforms: []string{"linux/amd64", "linux/arm64"}, parallelism: 1}}
}

func arm64() *fake {
	return &fake{is: worker{native: "arm64", platforms: []string{"linux/arm64"}, parallelism: 1}}
}

// fakes returns a pool of fakes, named a, b, c.
func fakes(t *testing.T, list ...*fake) *Pool {
	t.Helper()
	p := newPool(Options{})
	for i, f := range list {
		p.add(string(rune('a'+i)), f)
	}
	require.NoError(t, p.probeAll(t.Context()))
	t.Cleanup(func() {
		assert.NoError(t, p.Close())
	})
	return p
}

func someStep(t *testing.T, arch string) runner.Step {
	t.Helper()
	return runner.Step{Name: "some step", Arch: arch, Layers: []v1.Layer{runnertest.Layer(t, "x = 1")}, Args: []string{"/x"}, Env: []string{"PATH=/bin", "HOME=/"}, Output: "/out"}
}

func lost(name string) func(context.Context) error {
	return func(context.Context) error { return &daemonError{address: name, err: errors.New("EOF")} }
}

func full(name string) func(context.Context) error {
	return func(context.Context) error {
		return &daemonError{address: name, full: true, err: errors.New("ENOSPC")}
	}
}

// TestPoolOutcomes: the outcome of one step on daemons of which some fail.
func TestPoolOutcomes(t *testing.T) {
	t.Parallel()
	failed := &runner.FailedError{Step: "some step", Code: 2}
	for _, c := range []struct {
		name   string
		arch   string
		a, b   *fake
		doA    func(context.Context) error
		doB    func(context.Context) error
		solves []int
		says   []string // substrings of the error; nil: the step succeeds
		is     error    // errors.Is target
	}{
		{name: "first", arch: "amd64", a: amd64(), b: amd64(), solves: []int{1, 0}},
		{name: "native before emulated", arch: "arm64", a: amd64(), b: arm64(), solves: []int{0, 1}},
		{name: "emulated when the native one is lost", arch: "arm64", a: amd64(), b: arm64(), doB: lost("b"), solves: []int{1, 1}},
		{name: "only one can", arch: "amd64", a: arm64(), b: amd64(), solves: []int{0, 1}},
		{name: "nobody can", arch: "riscv64", a: arm64(), b: amd64(), solves: []int{0, 0}, is: runner.ErrUnavailable,
			says: []string{"a runs linux/arm64 only", "b runs linux/amd64, linux/arm64 only", "linux/riscv64", "binfmt_misc"}},
		{name: "lost", arch: "amd64", a: amd64(), b: amd64(), doA: lost("a"), solves: []int{1, 1}},
		{name: "full", arch: "amd64", a: amd64(), b: amd64(), doA: full("a"), solves: []int{1, 1}},
		{name: "all lost, twice", arch: "amd64", a: amd64(), b: amd64(), doA: lost("a"), doB: lost("b"), solves: []int{2, 2},
			is: runner.ErrUnavailable, says: []string{"a was lost", "b was lost"}},
		{name: "one lost, one full", arch: "amd64", a: amd64(), b: amd64(), doA: lost("a"), doB: full("b"), solves: []int{2, 1},
			is: runner.ErrUnavailable, says: []string{"a was lost", "the disk of buildkitd at b is full"}},
		{name: "a failed command is not tried again", arch: "amd64", a: amd64(), b: amd64(), doA: func(context.Context) error { return failed },
			solves: []int{1, 0}, is: failed, says: []string{"code 2"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.a.do, c.b.do = c.doA, c.doB
			dir := t.TempDir()
			err := fakes(t, c.a, c.b).Run(t.Context(), someStep(t, c.arch), dir, nil)
			assert.Samef(t, c.solves, []int{c.a.count(), c.b.count()}, "attempts (-want +got)")
			left := len(names(t, dir))
			if c.says == nil {
				if err != nil || left != 1 {
					t.Errorf("%v, %d files", err, left)
				}
				return
			}
			if err == nil || !errors.Is(err, c.is) || left > 0 {
				t.Fatalf("%v, %d files", err, left)
			}
			for _, text := range c.says {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("error %q does not say %q", err, text)
				}
			}
		})
	}
}

func names(t *testing.T, dir string) []os.DirEntry {
	t.Helper()
	return require.Value(os.ReadDir(dir))(t)
}

// TestPoolRest: a lost daemon gets no steps for a while. The pool asks it again afterwards, or at once when
// it is the last.
func TestPoolRest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, b := amd64(), amd64()
		p := fakes(t, a, b)
		s := someStep(t, "amd64")
		again := func() {
			t.Helper()
			require.NoError(t, p.Run(t.Context(), s, t.TempDir(), nil))
		}
		check := func(what string, want ...int) {
			t.Helper()
			assert.Samef(t, want, []int{a.count(), b.count()}, "%s (-want +got)", what)
		}
		a.do = lost("a")
		again()
		a.do = nil
		check("lost", 1, 1)
		again()
		check("at rest", 1, 2)
		b.do, b.down = lost("b"), errors.New("b is gone")
		again() // b is lost, a is alive after all
		check("the last one", 2, 3)
		time.Sleep(suspension + time.Second)
		b.do = nil
		again()
		check("a is the first of two", 3, 3)
		a.down, a.do = errors.New("a is gone"), lost("a")
		b.down = errors.New("b is gone")
		b.do = lost("b")
		err := p.Run(t.Context(), s, t.TempDir(), nil)
		if !errors.Is(err, runner.ErrUnavailable) || !strings.Contains(err.Error(), "a is gone") || !strings.Contains(err.Error(), "b is gone") {
			t.Errorf("all gone: %v", err)
		}
		a.do, a.down = nil, nil
		again() // without waiting
	})
}

// TestPoolLoad: the pool spreads steps by the load and the parallelism of each daemon.
func TestPoolLoad(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		small, large := amd64(), amd64()
		large.is.parallelism = 3
		release := make(chan struct{})
		wait := func(context.Context) error { <-release; return nil }
		small.do, large.do = wait, wait
		p := fakes(t, small, large)
		var all sync.WaitGroup
		for range 12 {
			all.Go(func() {
				assert.NoError(t, p.Run(t.Context(), someStep(t, "amd64"), t.TempDir(), nil))
			})
		}
		synctest.Wait()
		assert.Samef(t, []int{3, 9}, []int{small.count(), large.count()}, "shares (-want +got)")
		close(release)
		all.Wait()
		for _, m := range p.members {
			if m.steps != 0 {
				t.Errorf("%s has %d steps in hand at the end", m.address, m.steps)
			}
		}
	})
}

func TestPoolCancel(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, b := amd64(), amd64()
		a.do = func(ctx context.Context) error {
			<-ctx.Done()
			return &daemonError{address: "a", err: context.Cause(ctx)}
		}
		p := fakes(t, a, b)
		ctx, cancel := context.WithCancelCause(t.Context())
		because := errors.New("because")
		time.AfterFunc(time.Second, func() { cancel(because) })
		assert.ErrorIsf(t, p.Run(ctx, someStep(t, "amd64"), t.TempDir(), nil), because, "cancelled")
		if b.count() > 0 {
			t.Error("a cancelled step was tried again")
		}
		done := make(chan error)
		go func() { done <- p.Run(t.Context(), someStep(t, "amd64"), t.TempDir(), nil) }()
		synctest.Wait()
		assert.NoError(t, p.Close())
		assert.ErrorIsf(t, (<-done), errClosed, "closed under a step")
		assert.ErrorIsf(t, p.Run(t.Context(), someStep(t, "amd64"), t.TempDir(), nil), errClosed, "closed")
	})
}

func TestPoolSay(t *testing.T) {
	t.Parallel()
	a, b := amd64(), amd64()
	a.do = lost("a")
	var lines []string
	require.NoError(t, fakes(t, a, b).Run(t.Context(), someStep(t, "amd64"), t.TempDir(), func(line string) { lines = append(lines, line) }))
	want := []string{"started", "buildkitd at a was lost while it worked: EOF", "started"}
	assert.Samef(t, want, lines, "lines (-want +got)")
}

// TestPoolAsk: when a pool is opened, some daemons may be unreachable, but not all.
func TestPoolAsk(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		down []bool
		says int
		err  bool
	}{{[]bool{false, false}, 0, false}, {[]bool{true, false}, 1, false}, {[]bool{true, true}, 0, true}} {
		var lines []string
		p := newPool(Options{OnLine: func(line string) { lines = append(lines, line) }})
		for i, down := range c.down {
			f := amd64()
			if down {
				f.down = fmt.Errorf("%d is away", i)
			}
			p.add(fmt.Sprint(i), f)
		}
		err := p.probeAll(t.Context())
		if (err != nil) != c.err || len(lines) != c.says {
			t.Errorf("%v: %v, said %q", c.down, err, lines)
		}
		if c.err && (!errors.Is(err, runner.ErrUnavailable) || !strings.Contains(err.Error(), "0 is away") || !strings.Contains(err.Error(), "1 is away")) {
			t.Errorf("%v", err)
		}
		assert.NoError(t, p.Close())
	}
}
