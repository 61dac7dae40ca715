// Package metrics serves what a node's instance knows over HTTP: /metrics for Prometheus, /healthz and /readyz for whoever cannot run
// `nvidia-driver probe`. docs/metrics.md lists every metric.
//
// It reads the status and changes nothing. GPUs are asked for memory and utilisation only while somebody scrapes, no more often than
// Options say, and never by this process itself: the answer comes from node/probe's child. There is no TLS and no authentication: what
// is served is no secret, and who may reach the port is the business of the cluster's network policy.
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

// Source is where the numbers come from. Its functions are called by several goroutines.
type Source struct {
	Status func() status.Snapshot // a copy; before the lock is taken its State is ""
	Live   func() error           // as `nvidia-driver probe live`; nil: alive
	Ready  func() error           // as `nvidia-driver probe ready`
	// GPUs asks the driver for memory and utilisation; nil: it is never asked. It has a deadline of its own, and returns soon after ctx ends.
	GPUs func(ctx context.Context) (probe.Answer, error)
}

// Options of New.
type Options struct {
	GPUEvery time.Duration // how old an answer about the GPUs may be before they are asked again; 0 or less: never asked
	Version  string        // of this program
}

const namespace = "nvidia_driver_"

// States of node, each of which is one series of nvidia_driver_state.
func states() []status.State {
	return []status.State{status.Waiting, status.Starting, status.Serving, status.Degraded, status.Stopping, status.Detached, status.Restored,
		status.Absent, status.Failed}
}

// collector turns a status into metrics at each scrape: nothing is kept that could be old.
type collector struct {
	source  Source
	version string
	gpus    *gpus
}

// metric is one that the collector knows.
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

// Describe tells the registry every metric that Collect may send.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, m := range []metric{
		buildInfo, info, wantedInfo, state, waitsFor, ready, started, updated, lastFailed, warnings, phaseSeconds, startSeconds, compiles, lookups, holders,
		holderProcesses, blockedUnloads, gpusExpected, gpusWorking, gpuUp, daemonUp, daemonRestarts, gpuQueryOK, gpuQuerySeconds,
		gpusAnswering, gpuMemoryUsed, gpuMemoryTotal, gpuUtilization,
	} {
		ch <- m.desc
	}
}

// Collect sends what the status and the last answer of the GPUs say now.
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

// sink sends each series once: the registry refuses a whole scrape when one comes twice, and a status is read from many places.
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

// label bounds what the driver, the kernel or Kubernetes said: a value of a label has to be UTF-8.
func label(text string) string {
	const most = 300
	return strings.ToValidUTF8(text[:min(len(text), most)], "")
}

func number(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }
