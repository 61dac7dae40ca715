package metrics

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/driver-container/driver-container/node/daemons"
	"github.com/driver-container/driver-container/node/probe"
	"github.com/driver-container/driver-container/node/status"
)

// These metrics come from the GPUs, not from the status.
var (
	gpuQueryOK      = gauge("gpu_query_success", "Whether the last question to the GPUs for their use was answered for all of them.")
	gpuQuerySeconds = gauge("gpu_query_duration_seconds", "How long that question took.")
	gpusAnswering   = gauge("gpus_answering", "GPUs that answered it.")
	gpuMemoryUsed   = gauge("gpu_memory_used_bytes", "Memory of a GPU in use, what the driver keeps for itself included.", "gpu", "uuid", "model")
	gpuMemoryTotal  = gauge("gpu_memory_total_bytes", "Memory of a GPU.", "gpu", "uuid", "model")
	gpuLicensed     = gauge("gpu_licensed", "Whether a vGPU has a licence now; without one it becomes slow. Absent for GPUs that need none.", "gpu", "uuid", "model")
	gpuUtilization  = gauge("gpu_utilization_ratio", "Share of the last sample period in which something ran on a GPU, 0 to 1.", "gpu", "uuid", "model")
)

// scrapeWait is how long a scrape waits for an answer; an answer that comes later is used by the next scrape.
// The default timeout of Prometheus is 10 s.
const scrapeWait = 4 * time.Second

// gpus keeps the last answer about memory and utilisation of the GPUs.
type gpus struct {
	query func(ctx context.Context) (probe.Answer, error) // nil: the GPUs are never asked
	every time.Duration
	life  context.Context //nolint:containedctx // of the server: a scraper that closes its connection does not cancel the query

	mu      sync.Mutex
	latest  *answer
	running chan struct{} // closed when the current query is over; nil: there is none
}

type answer struct {
	devices []probe.Device
	ok      bool
	hung    bool // the child did not answer in time
	took    time.Duration
	at      time.Time
}

// refresh asks the GPUs when the last answer is too old, and waits at most scrapeWait for the answer. Only one
// query runs at a time: every scrape that comes meanwhile waits for the same query. After a query that hung,
// as with a GPU that fell off the bus, a scrape does not wait for the next one.
func (g *gpus) refresh(ctx context.Context) {
	g.mu.Lock()
	old := g.latest == nil || time.Since(g.latest.at) >= g.every
	if old && g.running == nil && g.query != nil && g.every > 0 && g.life.Err() == nil {
		g.running = make(chan struct{})
		go g.ask(g.running)
	}
	running := g.running
	hung := g.latest != nil && g.latest.hung
	g.mu.Unlock()
	if running == nil || hung {
		return
	}
	select {
	case <-running:
	case <-ctx.Done():
	case <-time.After(scrapeWait):
	}
}

func (g *gpus) ask(done chan struct{}) {
	defer close(done)
	began := time.Now()
	reply, err := g.query(g.life)
	at := time.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.running = nil
	switch {
	case errors.Is(err, probe.ErrBusy): // the readiness check uses the probe: the next scrape asks again
	case errors.Is(err, status.ErrNotReady), errors.Is(err, probe.ErrEnded): // the driver does not serve any GPU
		g.latest = nil
	default:
		g.latest = &answer{devices: reply.Devices, ok: err == nil, hung: errors.As(err, new(*daemons.HungError)), took: at.Sub(began), at: at}
	}
}

// last returns the last answer unless it is too old, as when scrapes are rare or the current query takes
// long.
func (g *gpus) last() (answer, bool) {
	const enough = 2 * time.Minute
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.latest == nil || time.Since(g.latest.at) > max(enough, 2*g.every) {
		return answer{}, false
	}
	return *g.latest, true
}

// end waits for the current query, which the end of g.life ends; node/probe bounds that.
func (g *gpus) end() {
	g.mu.Lock()
	running := g.running
	g.mu.Unlock()
	if running != nil {
		<-running
	}
}

func (p *page) answer(a answer) {
	p.add(gpuQueryOK, boolValue(a.ok))
	p.add(gpuQuerySeconds, a.took.Seconds())
	p.add(gpusAnswering, float64(len(a.devices)))
	for _, d := range a.devices {
		if d.Memory != nil {
			p.add(gpuMemoryUsed, float64(d.Memory.Used), d.PCI, d.UUID, d.Name)
			p.add(gpuMemoryTotal, float64(d.Memory.Total), d.PCI, d.UUID, d.Name)
		}
		if d.Licence != nil && d.Licence.Error == "" {
			p.add(gpuLicensed, boolValue(d.Licence.Licensed), d.PCI, d.UUID, d.Name)
		}
		if d.Utilization != nil {
			p.add(gpuUtilization, *d.Utilization, d.PCI, d.UUID, d.Name)
		}
	}
}
