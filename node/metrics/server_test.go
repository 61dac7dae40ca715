package metrics

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/node/daemons"
	"github.com/driver-container/driver-container/node/probe"
	"github.com/driver-container/driver-container/node/status"
)

func TestServe(t *testing.T) {
	t.Parallel()
	url := serve(t, New(steady(serving()), Options{Version: "v1.2.3"}))
	code, body := get(t, url+"/metrics")
	for _, line := range []string{
		"# TYPE nvidia_driver_ready gauge\nnvidia_driver_ready 1\n", "# TYPE nvidia_driver_compiles_total counter\n", `state="serving"} 1`,
		`nvidia_driver_entrypoint_build_info{goversion="go1.`, `version="v1.2.3"`,
	} {
		assert.Equal(t, http.StatusOK, code)
		assert.Contains(t, body, line)
	}
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 200, "/": 404, "/debug/pprof/": 404, "/metrics/": 404} {
		if code, body := get(t, url+path); code != want || want == 200 && body != "ok\n" {
			t.Errorf("%s: %d %q", path, code, body)
		}
	}
	code, _ = request(t, http.MethodPost, url+"/metrics")
	assert.Equal(t, http.StatusMethodNotAllowed, code)
	source := steady(busy())
	source.Live = func() error { return errors.New("no sign of life \xff") }
	url = serve(t, New(source, Options{}))
	for path, want := range map[string]string{"/readyz": "the driver is not ready: in use\n", "/healthz": "no sign of life \n"} {
		if code, body := get(t, url+path); code != http.StatusServiceUnavailable || body != want {
			t.Errorf("%s: %d %q", path, code, body)
		}
	}
}

// The end of the context ends the server while a client is connected and a query runs; a listener that is
// closed by others is an error.
func TestServeEnds(t *testing.T) {
	t.Parallel()
	listener := require.Value(net.Listen("tcp", "127.0.0.1:0"))(t) //nolint:noctx // it listens at once
	source := steady(serving())
	slow := &asker{takes: time.Hour}
	source.GPUs = slow.query
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- New(source, Options{GPUEvery: time.Second}).Serve(ctx, listener) }()
	conn := require.Value(net.Dial("tcp", listener.Addr().String()))(t) //nolint:noctx // on the loopback
	defer conn.Close()
	require.Value(conn.Write([]byte("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")))(t)
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		if slow.count() > 0 || time.Now().After(end) {
			break
		}
	}
	began := time.Now()
	cancel()
	if err := <-ended; err != nil || time.Since(began) > 30*time.Second {
		t.Error(err, time.Since(began))
	}
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(time.Minute)))
	if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the connection is still open")
	}
	assert.ErrorContains(t, New(source, Options{}).Serve(t.Context(), listener), "serve metrics on 127.0.0.1:")
}

// Clients that keep connections open without sending anything do not lock out others for long.
func TestSilentConnections(t *testing.T) {
	t.Parallel()
	url := serve(t, New(steady(status.Snapshot{}), Options{}))
	for range maxConnections + 4 {
		conn := require.Value(net.Dial("tcp", strings.TrimPrefix(url, "http://")))(t) //nolint:noctx // on the loopback
		defer conn.Close()
	}
	began := time.Now()
	if code, _ := get(t, url+"/healthz"); code != http.StatusOK || time.Since(began) > 20*headerTime {
		t.Error(code, time.Since(began))
	}
}

// The fifth scrape at a time is refused.
func TestScrapes(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	source := steady(serving())
	began := make(chan struct{}, maxScrapes)
	source.Status = func() status.Snapshot {
		began <- struct{}{}
		<-release
		return serving()
	}
	full := serve(t, New(source, Options{}))
	codes := make(chan int, maxScrapes)
	for range maxScrapes {
		go func() {
			code, _ := get(t, full+"/metrics")
			codes <- code
		}()
	}
	for range maxScrapes {
		<-began
	}
	if code, body := get(t, full+"/metrics"); code != http.StatusServiceUnavailable || !strings.Contains(body, "4 scrapes") {
		t.Errorf("%d %q", code, body)
	}
	close(release)
	for range maxScrapes {
		assert.Equal(t, http.StatusOK, <-codes)
	}
}

// asker answers after a delay; the memory in use that it reports is the number of calls so far.
type asker struct {
	mu    sync.Mutex
	asked int
	takes time.Duration
	err   error
}

func (a *asker) query(ctx context.Context) (probe.Answer, error) {
	a.mu.Lock()
	a.asked++
	n, takes, err := a.asked, a.takes, a.err
	a.mu.Unlock()
	t := time.NewTimer(takes)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return probe.Answer{}, ctx.Err()
	case <-t.C:
	}
	return probe.Answer{Devices: []probe.Device{t4(uint64(n), nil)}}, err
}

func (a *asker) set(takes time.Duration, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.takes, a.err = takes, err
}

func (a *asker) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.asked
}

func newGPUs(a *asker, every time.Duration) *gpus {
	return &gpus{query: a.query, every: every, life: context.Background()}
}

// used is the memory in use that a scrape sees now; -1 without an answer.
func used(ctx context.Context, g *gpus) int {
	g.refresh(ctx)
	got, ok := g.last()
	if !ok {
		return -1
	}
	return int(got.devices[0].Memory.Used)
}

func TestAskedOnlyWhenScraped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := &asker{takes: time.Second}
		g := newGPUs(a, 30*time.Second)
		time.Sleep(time.Hour)
		for i, want := range []int{1, 1, 1, 2, 2, 2, 3} { // one scrape every ten seconds
			assert.Equalf(t, want, used(t.Context(), g), "scrape %d", i)
			time.Sleep(11 * time.Second)
		}
		time.Sleep(30 * time.Second)
		for range 8 { // concurrent scrapes cause one query
			go used(t.Context(), g)
		}
		time.Sleep(time.Minute)
		assert.Equal(t, 4, a.count())
		time.Sleep(time.Hour)
		_, ok := g.last()
		assert.Equalf(t, false, ok, "an hour later")
	})
}

// A scrape does not wait for a GPU that answers slowly, and the next scrape has the answer. A client that closes its
// connection stops waiting, but does not cancel the query.
func TestSlow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGPUs(&asker{takes: 7 * time.Second}, 30*time.Second)
		began := time.Now()
		assert.Equal(t, -1, used(t.Context(), g))
		assert.Equal(t, scrapeWait, time.Since(began))
		time.Sleep(10 * time.Second)
		assert.Equal(t, 1, used(t.Context(), g))
		time.Sleep(time.Minute)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began = time.Now()
		g.refresh(ctx)
		assert.Equal(t, time.Second, time.Since(began))
		time.Sleep(10 * time.Second)
		assert.Equal(t, 2, used(t.Context(), g))
	})
}

// TestHung: only the first scrape waits for a GPU that hangs. When it answers again, its values are back.
func TestHung(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := &asker{takes: 10 * time.Second, err: &daemons.HungError{}}
		g := newGPUs(a, 30*time.Second)
		for i, want := range []time.Duration{scrapeWait, 0, 0} {
			began := time.Now()
			g.refresh(t.Context())
			assert.Equalf(t, want, time.Since(began), "scrape %d", i)
			time.Sleep(time.Minute)
		}
		assert.Equal(t, 0.0, series(t, &Server{source: steady(serving()), gpus: g})["gpu_query_success"])
		a.set(time.Second, nil)
		g.refresh(t.Context())
		time.Sleep(time.Minute)
		assert.Equal(t, 5, used(t.Context(), g))
	})
}

func TestNotAsked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := &asker{}
		assert.Equal(t, -1, used(t.Context(), newGPUs(a, 0)))
		assert.Equal(t, -1, used(t.Context(), &gpus{every: time.Second}))
		assert.Equal(t, 0, a.count())
		g := newGPUs(a, time.Second)
		for _, err := range []error{nil, probe.ErrBusy} { // the previous answer stays until it is too old
			a.set(0, err)
			assert.Equal(t, 1, used(t.Context(), g))
			time.Sleep(time.Minute)
		}
		for _, err := range []error{status.ErrNotReady, probe.ErrEnded} {
			a.set(0, err)
			assert.Equalf(t, -1, used(t.Context(), g), "%v", err)
			time.Sleep(time.Minute)
		}
	})
}
