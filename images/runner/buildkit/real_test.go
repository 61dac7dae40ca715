package buildkit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/require"
	"github.com/driver-container/driver-container/ci/runnertest"
	"github.com/driver-container/driver-container/images/runner"
)

func TestRealConformance(t *testing.T) {
	realTier(t)
	noLeaks(t)
	d := startDaemon(t, "")
	runnertest.Conform(t, func(t *testing.T) runner.Runner { return connect(t, d.address) })
}

// randomLayer returns a layer with a file that does not compress.
func randomLayer(t *testing.T, size int) v1.Layer {
	t.Helper()
	b := make([]byte, size)
	r := rand.NewChaCha8([32]byte{1})
	r.Read(b)
	return runnertest.Layer(t, "random * "+string(b))
}

// proxy counts the bytes between a client and a daemon.
func proxy(t *testing.T, d *testDaemon) (address string, toDaemon *atomic.Int64) {
	t.Helper()
	toDaemon = &atomic.Int64{}
	socket := filepath.Join(t.TempDir(), "p")
	l := require.Value(net.Listen("unix", socket))(t)
	var all sync.WaitGroup
	all.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("unix", strings.TrimPrefix(d.address, "unix://"))
			if err != nil {
				in.Close()
				continue
			}
			all.Go(func() {
				io.Copy(out, io.TeeReader(in, counter{toDaemon}))
				out.Close()
			})
			all.Go(func() {
				io.Copy(in, out)
				in.Close()
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		all.Wait()
	})
	return "unix://" + socket, toDaemon
}

type counter struct{ n *atomic.Int64 }

func (c counter) Write(p []byte) (int, error) {
	c.n.Add(int64(len(p)))
	return len(p), nil
}

// TestRealCache: no step runs twice and no layer is sent twice, neither for another process nor for another
// step.
func TestRealCache(t *testing.T) {
	realTier(t)
	noLeaks(t)
	d := startDaemon(t, "")
	address, sent := proxy(t, d)
	const size = 32 << 20
	program, big := runnertest.ProgramLayer(t), randomLayer(t, size)
	for _, c := range []struct {
		name     string
		args     []string
		min, max int64
		cached   bool
	}{
		{"first", []string{"write", "/out/x=1"}, size, size + 4<<20, false},
		{"again", []string{"write", "/out/x=1"}, 0, 64 << 10, true},
		{"another step", []string{"write", "/out/x=2"}, 0, 64 << 10, false},
	} {
		p := connect(t, address)
		before, begin := sent.Load(), time.Now()
		s := runnertest.Step(t, program, []v1.Layer{big}, c.args...)
		dir := t.TempDir()
		var lines []string
		require.NoError(t, p.Run(t.Context(), s, dir, func(line string) { lines = append(lines, line) }))
		took, n := time.Since(begin), sent.Load()-before
		t.Logf("%s: %v, %d bytes sent", c.name, took, n)
		if n < c.min || n > c.max {
			t.Errorf("%s: %d bytes sent, want %d to %d", c.name, n, c.min, c.max)
		}
		want := []string(nil)
		if c.cached {
			want = []string{"cached"}
		}
		assert.Samef(t, want, lines, "%s: lines (-want +got)", c.name)
		if d := cmp.Diff(map[string]string{"x": strings.TrimPrefix(c.args[1], "/out/x=")}, runnertest.Files(t, dir)); d != "" {
			t.Errorf("%s: result (-want +got):\n%s", c.name, d)
		}
	}
}

// TestRealDeath: when a daemon dies during a step and does not come back, the error says so, soon.
func TestRealDeath(t *testing.T) {
	realTier(t)
	noLeaks(t)
	d := startDaemon(t, "")
	dir, begin := t.TempDir(), time.Now()
	err := connect(t, d.address).Run(t.Context(), step(t, runnertest.ProgramLayer(t), "meet", "x"), dir, func(string) { d.kill() })
	assert.ErrorIs(t, err, runner.ErrUnavailable)
	assert.ErrorContains(t, err, d.address, "start buildkitd")
	if took := time.Since(begin); took > 15*time.Second {
		t.Errorf("it took %v", took)
	}
	assert.Equal(t, 0, len(runnertest.Files(t, dir)))
}

// TestRealFullDisk: a step that does not fit fails once, with an explanation.
func TestRealFullDisk(t *testing.T) {
	realTier(t)
	noLeaks(t)
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=16m"); err != nil {
		t.Skip("mount a small tmpfs: ", err)
	}
	t.Cleanup(func() {
		assert.NoErrorf(t, syscall.Unmount(dir, 0), "unmount %s", dir)
	})
	small := startDaemon(t, dir)
	program, big := runnertest.ProgramLayer(t), randomLayer(t, 40<<20)
	s := runnertest.Step(t, program, []v1.Layer{big}, "write", "/out/x=1")

	lines, err := run(t, connect(t, small.address), s)
	assert.ErrorIs(t, err, runner.ErrUnavailable)
	assert.ErrorContains(t, err, "the disk of buildkitd at "+small.address+" is full")
	assert.Equalf(t, 0, len(lines), "tried more than once: %q", lines)
}

// TestRealCancel: when Run returns, no process of a cancelled step is running.
func TestRealCancel(t *testing.T) {
	realTier(t)
	noLeaks(t)
	d := startDaemon(t, "")
	p := connect(t, d.address)
	program := runnertest.ProgramLayer(t)
	because := errors.New("the user pressed Ctrl-C")
	for i := range 3 {
		ctx, cancel := context.WithCancelCause(t.Context())
		var once sync.Once
		var at time.Time
		err := p.Run(ctx, step(t, program, "sleep", fmt.Sprint(i)), t.TempDir(), func(string) {
			once.Do(func() {
				if n := len(d.processes(t)); n == 0 {
					t.Error("the test does not see the processes of the step")
				}
				at = time.Now()
				cancel(because)
			})
		})
		took := time.Since(at)
		left := d.processes(t)
		if !errors.Is(err, because) || took > 2*time.Second || len(left) > 0 {
			t.Errorf("%v after %v; processes %v", err, took, left)
		}
		t.Logf("cancelled after %v", took)
		cancel(nil)
	}
}

// TestRealInterrupted: a step that was cancelled during the transfer of its layers can run again.
func TestRealInterrupted(t *testing.T) {
	realTier(t)
	noLeaks(t)
	d := startDaemon(t, "")
	address, sent := proxy(t, d)
	p := connect(t, address)
	s := runnertest.Step(t, runnertest.ProgramLayer(t), []v1.Layer{randomLayer(t, 64<<20)}, "write", "/out/x=1")
	// Another step keeps the daemon busy in the meantime: the data that it holds must not interfere.
	busy, idle := context.WithCancel(t.Context())
	started := make(chan struct{})
	var all sync.WaitGroup
	defer all.Wait()
	defer idle()
	all.Go(func() {
		err := p.Run(busy, step(t, runnertest.ProgramLayer(t), "sleep"), t.TempDir(), func(string) { close(started) })
		assert.ErrorIs(t, err, context.Canceled)
	})
	<-started
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	all.Go(func() {
		for sent.Load() < 16<<20 && ctx.Err() == nil {
			time.Sleep(time.Millisecond)
		}
		cancel()
	})
	if err := p.Run(ctx, s, t.TempDir(), nil); !errors.Is(err, context.Canceled) {
		t.Fatalf("cancelled after %d bytes: %v", sent.Load(), err)
	}
	if lines, err := run(t, p, s); err != nil {
		t.Errorf("again: %v, %q", err, lines)
	}
}
