package buildkit

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/runnertest"
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
	l := require.Value(net.Listen("unix", filepath.Join(t.TempDir(), "p")))(t)
	t.Cleanup(func() { l.Close() })
	copied := func(to, from net.Conn, n *atomic.Int64) {
		defer to.Close()
		for buf := make([]byte, 32<<10); ; {
			got, err := from.Read(buf)
			n.Add(int64(got))
			if _, failed := to.Write(buf[:got]); errors.Join(err, failed) != nil {
				return
			}
		}
	}
	go func() {
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
			go copied(out, in, toDaemon)
			go copied(in, out, new(atomic.Int64))
		}
	}()
	return "unix://" + l.Addr().String(), toDaemon
}

// TestRealCache: no step runs twice and no layer is sent twice, neither for another process nor for another
// step.
func TestRealCache(t *testing.T) {
	realTier(t)
	noLeaks(t)
	d := startDaemon(t, "")
	address, sent := proxy(t, d)
	const size = 32 << 20
	big := randomLayer(t, size)
	for _, c := range []struct {
		content  string
		min, max int64
		lines    []string
	}{
		{"first", size, size + 4<<20, nil},
		{"first", 0, 64 << 10, []string{"cached"}},
		{"another step", 0, 64 << 10, nil},
	} {
		before, dir := sent.Load(), t.TempDir()
		var lines []string
		s := runnertest.Step(t, []v1.Layer{big}, "printf %s '"+c.content+"' >/out/x")
		require.NoError(t, connect(t, address).Run(t.Context(), s, dir, func(line string) { lines = append(lines, line) }))
		if n := sent.Load() - before; n < c.min || n > c.max {
			t.Errorf("%s: %d bytes sent, want %d to %d", c.content, n, c.min, c.max)
		}
		assert.Same(t, c.lines, lines)
		assert.Same(t, map[string]string{"x": c.content}, runnertest.Files(t, dir))
	}
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
		assert.NoErrorf(t, syscall.Unmount(dir, syscall.MNT_DETACH), "unmount %s", dir)
	})
	small := startDaemon(t, dir)
	s := runnertest.Step(t, []v1.Layer{randomLayer(t, 40<<20)}, "echo 1 >/out/x")

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
	because := errors.New("the user pressed Ctrl-C")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	var at time.Time
	err := connect(t, d.address).Run(ctx, runnertest.Step(t, nil, runnertest.Sleep), t.TempDir(), func(string) {
		if at.IsZero() {
			assert.Equalf(t, true, d.steps(t) > 0, "the test does not see the processes of the step")
			at = time.Now()
			cancel(because)
		}
	})
	if took := time.Since(at); !errors.Is(err, because) || took > 2*time.Second || d.steps(t) > 0 {
		t.Errorf("%v after %v; %d processes", err, took, d.steps(t))
	}
}

// TestRealInterrupted: a step that was cancelled during the transfer of its layers can run again.
func TestRealInterrupted(t *testing.T) {
	realTier(t)
	noLeaks(t)
	d := startDaemon(t, "")
	address, sent := proxy(t, d)
	p := connect(t, address)
	s := runnertest.Step(t, []v1.Layer{randomLayer(t, 64<<20)}, "echo 1 >/out/x")
	// Another step keeps the daemon busy in the meantime: the data that it holds must not interfere.
	busy, idle := context.WithCancel(t.Context())
	started := make(chan struct{})
	var all sync.WaitGroup
	defer all.Wait()
	defer idle()
	all.Go(func() {
		err := p.Run(busy, runnertest.Step(t, nil, runnertest.Sleep), t.TempDir(), func(string) { close(started) })
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
