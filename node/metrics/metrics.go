// Package metrics serves the state of a node's instance over HTTP: /metrics for Prometheus, /healthz and
// /readyz for clients that cannot run `nvidia-driver probe`. docs/metrics.md lists every metric.
//
// The package reads the status and changes nothing. It asks the GPUs for memory and utilisation only during a
// scrape, no more often than Options allow, and always through node/probe's child process. There is no TLS
// and no authentication: what is served is no secret, and the cluster's network policy decides who may reach
// the port.
package metrics

import (
	"context"
	"runtime"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

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

// states lists the states of a node; each is one series of nvidia_driver_state.
func states() []status.State {
	return []status.State{status.Waiting, status.Starting, status.Serving, status.Degraded, status.Stopping, status.Detached, status.Restored,
		status.Absent, status.Failed}
}

// collector turns the current status into metrics at each scrape and keeps nothing between scrapes.
type collector struct {
	source  Source
	version string
	gpus    *gpus
}

// metric is the description and the type of one metric.
type metric struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
}

func gauge(name, help string, labels ...string) metric {
	return metric{prometheus.NewDesc(namespace+name, help, labels, nil), prometheus.GaugeValue}
}

func counter(name, help string, labels ...string) metric {
	return metric{prometheus.NewDesc(namespace+name, help, labels, nil), prometheus.CounterValue}
}

// Describe sends the description of every metric that Collect may send.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, m := range []metric{
		buildInfo, info, wantedInfo, state, waitsFor, ready, started, updated, lastFailed, warnings, phaseSeconds, startSeconds, compiles, lookups, holders,
		holderProcesses, blockedUnloads, gpusExpected, gpusWorking, gpusLent, gpusLost, gpuState, gpuUp, gpuRegistered, daemonUp, daemonRestarts, gpuQueryOK, gpuQuerySeconds,
		gpusAnswering, gpuMemoryUsed, gpuMemoryTotal, gpuUtilization,
	} {
		ch <- m.desc
	}
}

// Collect sends the metrics of the current status and of the last answer of the GPUs.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	out := sink{ch: ch, seen: map[string]bool{}}
	out.send(buildInfo, 1, c.version, runtime.Version())
	st := c.source.Status()
	out.status(st)
	out.start(st)
	out.trouble(st)
	out.hardware(st)
	if answer, ok := c.gpus.last(); ok {
		out.answer(answer)
	}
}

// sink sends each series at most once: the registry refuses the whole scrape when a series occurs twice, and
// parts of the status come from outside.
type sink struct {
	ch   chan<- prometheus.Metric
	seen map[string]bool
}

func (s sink) send(m metric, value float64, labels ...string) {
	for i, l := range labels {
		labels[i] = label(l)
	}
	key := m.desc.String() + "\x00" + strings.Join(labels, "\x00")
	if s.seen[key] {
		return
	}
	s.seen[key] = true
	sent, err := prometheus.NewConstMetric(m.desc, m.kind, value, labels...)
	if err != nil {
		sent = prometheus.NewInvalidMetric(m.desc, err)
	}
	s.ch <- sent
}

// label limits the length of a label's value and makes it valid UTF-8; values come from the driver, the
// kernel or Kubernetes.
func label(text string) string {
	const most = 300
	return strings.ToValidUTF8(text[:min(len(text), most)], "")
}

func boolValue(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }
