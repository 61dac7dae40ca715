package metrics

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/driver-container/driver-container/node/probe"
	"github.com/driver-container/driver-container/node/status"
)

// What only the GPUs themselves can tell.
var (
	gpuQueryOK      = gauge("gpu_query_success", "Whether the last question to the GPUs for their use was answered for all of them.")
	gpuQuerySeconds = gauge("gpu_query_duration_seconds", "How long that question took.")
	gpusAnswering   = gauge("gpus_answering", "GPUs that answered it.")
	gpuMemoryUsed   = gauge("gpu_memory_used_bytes", "Memory of a GPU in use, what the driver keeps for itself included.", "gpu", "uuid", "model")
	gpuMemoryTotal  = gauge("gpu_memory_total_bytes", "Memory of a GPU.", "gpu", "uuid", "model")
	gpuUtilization  = gauge("gpu_utilization_ratio", "Share of the last sample period in which something ran on a GPU, 0 to 1.", "gpu", "uuid", "model")
)

// scrapeWait is how long a scrape waits for an answer; a later one is for the next scrape. Prometheus waits 10 s unless told otherwise.
const scrapeWait = 4 * time.Second

// gpus keeps the last answer about the use of the GPUs.
type gpus struct {
	ask   func(ctx context.Context) (probe.Answer, error) // nil: never
	every time.Duration
	wait  time.Duration
	now   func() time.Time

	mu      sync.Mutex
	latest  *answer
	asking  chan struct{} // closed when the question under way is over; nil: there is none
	cancel  context.CancelFunc
	stopped bool
}

type answer struct {
	devices []probe.Device
	ok      bool
	took    time.Duration
	at      time.Time
}

// refresh asks when the last answer is too old, and waits for the answer, but not for long. One question at a time: who comes meanwhile waits for
// the same one.
func (g *gpus) refresh(ctx context.Context) {
	asking := g.begin(ctx)
	if asking == nil {
		return
	}
	t := time.NewTimer(g.wait)
	defer t.Stop()
	select {
	case <-asking:
	case <-ctx.Done():
	case <-t.C:
	}
}

func (g *gpus) begin(ctx context.Context) chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.ask == nil || g.every <= 0 || g.stopped:
		return nil
	case g.asking != nil:
		return g.asking
	case g.latest != nil && g.now().Sub(g.latest.at) < g.every:
		return nil
	}
	done := make(chan struct{})
	ctx, g.cancel = context.WithCancel(context.WithoutCancel(ctx)) // a scraper that hangs up does not break the question off
	g.asking = done
	go g.question(ctx, g.cancel, done)
	return done
}

func (g *gpus) question(ctx context.Context, cancel context.CancelFunc, done chan struct{}) {
	defer close(done)
	defer cancel()
	began := g.now()
	said, err := g.ask(ctx)
	at := g.now()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asking, g.cancel = nil, nil
	switch {
	case errors.Is(err, probe.ErrBusy): // readiness is being decided: the next scrape asks
	case errors.Is(err, status.ErrNotReady), errors.Is(err, probe.ErrEnded): // there is nothing to ask
		g.latest = nil
	default:
		g.latest = &answer{devices: said.Devices, ok: err == nil, took: at.Sub(began), at: at}
	}
}

// last is the last answer unless it is too old: somebody scrapes rarely, or the question under way takes long.
func (g *gpus) last() (answer, bool) {
	const enough = 2 * time.Minute
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.latest == nil || g.now().Sub(g.latest.at) > max(enough, 2*g.every) {
		return answer{}, false
	}
	return *g.latest, true
}

// stop ends the question under way and waits for its end, which node/probe bounds.
func (g *gpus) stop() {
	g.mu.Lock()
	g.stopped = true
	cancel, asking := g.cancel, g.asking
	g.mu.Unlock()
	if asking != nil {
		cancel()
		<-asking
	}
}

func (s sink) answer(a answer) {
	s.send(gpuQueryOK, number(a.ok))
	s.send(gpuQuerySeconds, a.took.Seconds())
	s.send(gpusAnswering, float64(len(a.devices)))
	for _, d := range a.devices {
		if d.Memory != nil {
			s.send(gpuMemoryUsed, float64(d.Memory.Used), d.PCI, d.UUID, d.Name)
			s.send(gpuMemoryTotal, float64(d.Memory.Total), d.PCI, d.UUID, d.Name)
		}
		if d.Utilization != nil {
			s.send(gpuUtilization, *d.Utilization, d.PCI, d.UUID, d.Name)
		}
	}
}
