package kubernetes

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/apitest"
	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/logtest"
	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/node/status"
)

// bench is a reporter without its goroutine: the test controls when it looks at the status, and the clock.
type bench struct {
	*Reporter
	server *apitest.Server
	st     status.Snapshot
	clock  time.Time
	said   logtest.Log
}

func newBench(t *testing.T) *bench {
	t.Helper()
	s := apitest.New(t)
	b := &bench{server: s, clock: noon}
	b.Reporter = StartReporter(t.Context(), Source{Status: func() status.Snapshot { return b.st }}, ReportOptions{
		Events: true, Condition: true, Client: New(s.URL, s.Folder), Node: apitest.NodeName,
		Pod: Pod("gpu", "driver-x", "uid-1"), Log: b.said.Logger(),
	})
	b.cancel()
	<-b.done
	b.now = func() time.Time { return b.clock }
	return b
}

// see lets the reporter look at a status after a while.
func (b *bench) see(t *testing.T, after time.Duration, st status.Snapshot) {
	t.Helper()
	b.st, b.clock = st, b.clock.Add(after)
	b.report(t.Context(), false)
}

func (b *bench) condition() string {
	c := b.server.Condition(conditionType)
	return fmt.Sprintf("%s %s %s", c.Status, c.Reason, c.Message)
}

var (
	up      = &status.Driver{Version: "535.261.03", Flavour: "open", Source: "cache"}
	old     = &status.Driver{Version: "470.256.02", Flavour: "proprietary"}
	gpus    = []status.GPU{{Address: "0000:05:00.0", ID: "10de:1eb8", Name: "Tesla T4", Works: true}, {Address: "0000:06:00.0", ID: "10de:1eb8"}}
	holders = []kmod.Holder{{PID: 4711}}
	serves  = status.Snapshot{State: status.Serving, Ready: true, Up: up, GPUs: gpus, Kernel: "6.1.0", Phases: []status.Timing{{Phase: "lock", Seconds: 0.5}, {Phase: "load", Seconds: 1.25}}}
)

// TestLife reports a life from the wait for the lock to a clean stop, and compares with what kubectl shows.
func TestLife(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.see(t, 0, status.Snapshot{})
	b.see(t, time.Second, status.Snapshot{State: status.Waiting, WaitsFor: status.ForLock, Phase: "lock", Reason: "waiting for the node's lock, held by pod gpu/old"})
	assert.Equalf(t, "", string(b.server.Condition(conditionType).Type), "an instance without the lock speaks of the node")
	b.see(t, time.Minute, status.Snapshot{State: status.Starting, Phase: "recover"})
	assert.Equal(t, "False Starting phase recover", b.condition())
	compiling := status.Snapshot{State: status.Starting, Phase: "modules", Wanted: "535.261.03", Kernel: "6.1.0"}
	b.see(t, time.Second, compiling)
	b.see(t, compileWait, compiling)
	waits := status.Snapshot{State: status.Waiting, WaitsFor: status.ForSafeLoad, Phase: "replace", Reason: "waiting for safe load", Holders: holders, Up: old}
	b.see(t, time.Minute, waits)
	waits.WaitsFor, waits.Reason = status.ForHolders, "in use by pid 4711"
	b.see(t, time.Minute, waits)
	b.see(t, time.Minute, status.Snapshot{State: status.Waiting, WaitsFor: status.ForPreflight, Phase: "preflight", Reason: "no headers"})
	assert.Equal(t, "False Waiting no headers", b.condition())
	b.see(t, time.Minute, status.Snapshot{State: status.Starting, Phase: "load"})
	b.see(t, time.Second, serves)
	const text = "driver 535.261.03 (open modules, from the cache) serves kernel 6.1.0, 1 of 2 GPUs work; the start took 1.75s"
	assert.Equal(t, "True Serving "+text, b.condition())
	missing := serves
	missing.Companions = []status.Companion{{Name: "gdrdrv", Loaded: true, Version: "2.5.2"}, {Name: "nvidia-fs", Reason: "this image has none"}}
	assert.Equal(t, text+"; nvidia-fs is missing: this image has none", serving(missing))
	degraded := serves
	degraded.State, degraded.Ready, degraded.Reason = status.Degraded, false, "nvidia-persistenced is not running"
	b.see(t, time.Hour, degraded)
	assert.Equal(t, "False Degraded nvidia-persistenced is not running", b.condition())
	b.see(t, time.Minute, serves)
	b.see(t, time.Hour, status.Snapshot{State: status.Stopping, Up: up})
	b.see(t, time.Second, status.Snapshot{State: status.Stopping, Up: up, Holders: holders, Reason: "in use by pid 4711"})
	b.st = status.Snapshot{State: status.Absent}
	b.Close(t.Context())
	b.Close(t.Context())
	assert.Equal(t, "False Stopped the driver was taken down", b.condition())
	want := []string{
		"Node Normal Serving x2: " + text, "Node Normal Stopped x1: the driver was taken down: modules unloaded, driver root removed", "Node Normal WaitingForSafeLoad x1: waiting for safe load",
		"Node Warning Degraded x1: nvidia-persistenced is not running", "Node Warning PreflightFailed x1: no headers", "Node Warning UnloadBlocked x1: in use by pid 4711", "Node Warning WaitingForHolders x1: in use by pid 4711",
		"Pod Normal Compiling x1: compiling the modules of driver 535.261.03 for kernel 6.1.0", "Pod Normal Serving x2: " + text,
		"Pod Normal Stopped x1: the driver was taken down: modules unloaded, driver root removed", "Pod Normal WaitingForLock x1: waiting for the node's lock, held by pod gpu/old",
		"Pod Normal WaitingForSafeLoad x1: waiting for safe load", "Pod Warning Degraded x1: nvidia-persistenced is not running",
		"Pod Warning PreflightFailed x1: no headers", "Pod Warning UnloadBlocked x1: in use by pid 4711", "Pod Warning WaitingForHolders x1: in use by pid 4711",
	}
	assert.Same(t, want, b.server.Told())
	assert.Equalf(t, "", b.said.String(), "warnings")
}

// TestEnds checks the condition for each way in which a life may end.
func TestEnds(t *testing.T) {
	t.Parallel()
	for want, st := range map[string]status.Snapshot{
		"Unknown Detached left in place":     {State: status.Detached, Up: up, Reason: "left in place"},
		"False Failed refused":               {State: status.Failed, Reason: "refused"},
		"False Restored 470 is loaded again": {State: status.Restored, Up: old, Reason: "470 is loaded again"},
	} {
		b := newBench(t)
		b.see(t, 0, serves)
		b.st = st
		b.Close(t.Context())
		assert.Equal(t, want, b.condition())
	}
}

// TestHeartbeat checks that the condition is renewed without a change, that changes of the text alone are
// reported rarely, and that the time of its transition is that of its status.
func TestHeartbeat(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	patches := func() (n int) {
		b.server.Do(func(st *apitest.State) {
			for _, r := range st.Requests {
				if strings.HasSuffix(r, "/status") {
					n++
				}
			}
		})
		return n
	}
	waits := status.Snapshot{State: status.Waiting, WaitsFor: status.ForHolders, Reason: "a"}
	b.see(t, 0, waits)
	b.see(t, time.Second, waits)
	waits.Reason = "b"
	b.see(t, time.Second, waits)
	assert.Equalf(t, 1, patches(), "patches")
	b.see(t, messageEvery, waits)
	b.see(t, heartbeat, waits)
	assert.Equal(t, 3, patches())
	assert.Equal(t, "False Waiting b", b.condition())
	assert.Equalf(t, true, b.server.Condition(conditionType).LastTransitionTime.Time.Equal(noon), "transition")
	b.see(t, time.Hour, serves)
	assert.Equalf(t, true, b.server.Condition(conditionType).LastTransitionTime.Time.Equal(b.clock), "transition")
	b.see(t, 0, waits)
	for range 7 {
		b.see(t, 10*time.Minute, waits)
	}
	assert.Containsf(t, strings.Join(b.server.Told(), "\n"), "Pod Warning WaitingForHolders x9: b", "a state that lasts is forgotten")
}

// TestRefused checks missing rights and a server that is down: one warning each, rare attempts, and the other
// kinds of reports continue.
func TestRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.server.Do(func(st *apitest.State) { st.Denied = []string{"patch nodes/status"} })
	b.see(t, 0, serves)
	b.see(t, time.Minute, status.Snapshot{State: status.Degraded, Up: up, Reason: "x"})
	if said := b.said.Lines(); len(said) != 1 || !strings.Contains(said[0], `feature="the node condition NVIDIADriverReady": PATCH`) || len(b.server.Told()) != 4 {
		t.Errorf("said %s, told %q", &b.said, b.server.Told())
	}
	b.server.Do(func(st *apitest.State) { st.Denied, st.Down = nil, true })
	b.see(t, refusedWait, serves)
	b.see(t, time.Second, serves)
	b.server.Do(func(st *apitest.State) { st.Down = false })
	b.see(t, time.Second, serves)
	assert.Equalf(t, "  ", b.condition(), "it does not pause")
	b.see(t, mostWait, serves)
	if got := b.condition(); !strings.HasPrefix(got, "True Serving") || !strings.Contains(b.said.String(), "reporting works again feature=\"the node condition") {
		t.Errorf("%s, said %s", got, &b.said)
	}
	b.server.Do(func(st *apitest.State) { st.Denied = []string{"create events", "patch events", "patch nodes/status"} })
	b.see(t, time.Hour, status.Snapshot{State: status.Failed, Reason: "x"})
	var before int
	b.server.Do(func(st *apitest.State) { before = len(st.Requests) })
	b.Close(t.Context())
	b.server.Do(func(st *apitest.State) {
		assert.Equalf(t, before, len(st.Requests), "the last word to a server that refuses: %q", st.Requests[before:])
	})
}

// TestStartAndClose checks the reporter with its goroutine: it reports a change at once, a server that hangs
// blocks nothing, and Close keeps its deadline.
func TestStartAndClose(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	changed := make(chan struct{}, 1)
	var mu sync.Mutex
	st, idle := status.Snapshot{}, make(chan struct{}, 1)
	set := func(to status.Snapshot) {
		mu.Lock()
		st = to
		mu.Unlock()
		changed <- struct{}{}
	}
	r := StartReporter(t.Context(), Source{Changed: changed, Status: func() status.Snapshot { mu.Lock(); defer mu.Unlock(); return st }}, ReportOptions{
		Condition: true, Events: true, Client: New(s.URL, s.Folder), Node: apitest.NodeName, Log: logtest.New(t),
		Pod: Pod("gpu", "driver-x", ""), Idle: func(context.Context) { idle <- struct{}{} },
	})
	set(serves)
	select {
	case <-idle:
	case <-time.After(time.Minute):
		t.Fatal("Idle was not called")
	}
	assert.Equal(t, "True", string(s.Condition(conditionType).Status))
	free := make(chan struct{})
	s.Do(func(st *apitest.State) { st.OnRequest = func(*apitest.State) { <-free } })
	set(status.Snapshot{State: status.Degraded, Reason: "x", Up: up})
	begin := time.Now()
	limited, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	r.Close(limited)
	assert.Equalf(t, true, time.Since(begin) < 30*time.Second, "Close returns at once")
	close(free)
}
