// Package metrics serves the state of a node's instance over HTTP: /metrics for Prometheus, /healthz and
// /readyz for clients that cannot run `nvidia-driver probe`. The site lists every metric.
//
// The package reads the status and changes nothing. It asks the GPUs for memory and utilisation only during a
// scrape, no more often than Options allow, and always through node/probe's child process. There is no TLS
// and no authentication: what is served is no secret, and the cluster's network policy decides who may reach
// the port.
package metrics

import (
	"context"
	"runtime"
	"time"

	"github.com/driver-container/driver-container/node/probe"
	"github.com/driver-container/driver-container/node/status"
)

// Source provides the data. Its functions are called from several goroutines.
type Source struct {
	Status func() status.Snapshot // a copy; before the lock is taken its State is ""
	Live   func() error           // the same as `nvidia-driver probe live`; nil: alive
	Ready  func() error           // the same as `nvidia-driver probe ready`
	// GPUs asks the driver for memory and utilisation. When it is nil, the GPUs are never asked. It has a
	// deadline of its own and returns soon after ctx ends.
	GPUs func(ctx context.Context) (probe.Answer, error)
}

// Options of New.
type Options struct {
	GPUEvery time.Duration // how old an answer about the GPUs may be before they are asked again; 0 or less: they are never asked
	Version  string        // of this program
}

const namespace = "nvidia_driver_"

// collector turns the current status into metrics at each scrape and keeps nothing between scrapes.
type collector struct {
	source  Source
	version string
	gpus    *gpus
}

func gauge(name, help string, labels ...string) metric {
	return metric{namespace + name, help, "gauge", labels}
}

func counter(name, help string, labels ...string) metric {
	return metric{namespace + name, help, "counter", labels}
}

// collect puts the metrics of the current status and of the last answer of the GPUs on a page.
func (c *collector) collect(p *page) {
	p.add(buildInfo, 1, c.version, runtime.Version())
	st := c.source.Status()
	p.status(st)
	p.start(st)
	p.trouble(st)
	p.hardware(st)
	if answer, ok := c.gpus.last(); ok {
		p.answer(answer)
	}
}

func boolValue(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }
