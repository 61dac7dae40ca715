package exposition

import (
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"time"
)

func gauge(name, help string) Metric   { return Metric{Name: name, Help: help, Kind: Gauge} }
func counter(name, help string) Metric { return Metric{Name: name, Help: help, Kind: Counter} }

// sampled are the metrics that are one value of package runtime/metrics, or the sum of some.
var sampled = []struct {
	Metric
	of []string
}{
	{gauge("go_gc_gogc_percent", "Heap size target percentage, as GOGC or debug.SetGCPercent set it, otherwise 100."), []string{"/gc/gogc:percent"}},
	{gauge("go_gc_gomemlimit_bytes", "Memory limit of Go's runtime, as GOMEMLIMIT or debug.SetMemoryLimit set it."), []string{"/gc/gomemlimit:bytes"}},
	{gauge("go_goroutines", "Number of goroutines that exist."), []string{"/sched/goroutines:goroutines"}},
	{gauge("go_sched_gomaxprocs_threads", "Threads that can execute Go code at the same time (GOMAXPROCS)."), []string{"/sched/gomaxprocs:threads"}},
	{gauge("go_memstats_alloc_bytes", "Bytes of the heap that are allocated and in use."), []string{objects}},
	{counter("go_memstats_alloc_bytes_total", "Bytes of the heap that were allocated until now, even if released."), []string{"/gc/heap/allocs:bytes"}},
	{gauge("go_memstats_buck_hash_sys_bytes", "Bytes of the profiler's hash table."), []string{"/memory/classes/profiling/buckets:bytes"}},
	{counter("go_memstats_frees_total", "Heap objects that were freed."), []string{"/gc/heap/frees:objects", tiny}},
	{gauge("go_memstats_gc_sys_bytes", "Bytes of the garbage collector's own data."), []string{"/memory/classes/metadata/other:bytes"}},
	{gauge("go_memstats_heap_alloc_bytes", "The same as go_memstats_alloc_bytes."), []string{objects}},
	{gauge("go_memstats_heap_idle_bytes", "Bytes of the heap that wait to be used."), []string{released, free}},
	{gauge("go_memstats_heap_inuse_bytes", "Bytes of the heap that are in use."), []string{objects, unused}},
	{gauge("go_memstats_heap_objects", "Heap objects that are allocated."), []string{"/gc/heap/objects:objects"}},
	{gauge("go_memstats_heap_released_bytes", "Bytes of the heap that were given back to the system."), []string{released}},
	{gauge("go_memstats_heap_sys_bytes", "Bytes of the heap that were obtained from the system."), []string{objects, unused, released, free}},
	{counter("go_memstats_mallocs_total", "Heap objects that were allocated, even if freed."), []string{"/gc/heap/allocs:objects", tiny}},
	{gauge("go_memstats_mcache_inuse_bytes", "Bytes of mcache structures in use."), []string{"/memory/classes/metadata/mcache/inuse:bytes"}},
	{gauge("go_memstats_mcache_sys_bytes", "Bytes of mcache structures obtained from the system."), []string{"/memory/classes/metadata/mcache/inuse:bytes", "/memory/classes/metadata/mcache/free:bytes"}},
	{gauge("go_memstats_mspan_inuse_bytes", "Bytes of mspan structures in use."), []string{"/memory/classes/metadata/mspan/inuse:bytes"}},
	{gauge("go_memstats_mspan_sys_bytes", "Bytes of mspan structures obtained from the system."), []string{"/memory/classes/metadata/mspan/inuse:bytes", "/memory/classes/metadata/mspan/free:bytes"}},
	{gauge("go_memstats_next_gc_bytes", "Bytes of the heap at which the next garbage collection begins."), []string{"/gc/heap/goal:bytes"}},
	{gauge("go_memstats_other_sys_bytes", "Bytes of other allocations of the runtime."), []string{"/memory/classes/other:bytes"}},
	{gauge("go_memstats_stack_inuse_bytes", "Bytes of stacks in use."), []string{"/memory/classes/heap/stacks:bytes"}},
	{gauge("go_memstats_stack_sys_bytes", "Bytes of stacks obtained from the system."), []string{"/memory/classes/heap/stacks:bytes", "/memory/classes/os-stacks:bytes"}},
	{gauge("go_memstats_sys_bytes", "Bytes that the runtime obtained from the system."), []string{"/memory/classes/total:bytes"}},
	{gauge("go_threads", "Threads of the operating system that Go's runtime made."), []string{"/sched/threads/total:threads"}},
}

const (
	objects  = "/memory/classes/heap/objects:bytes"
	unused   = "/memory/classes/heap/unused:bytes"
	released = "/memory/classes/heap/released:bytes"
	free     = "/memory/classes/heap/free:bytes"
	tiny     = "/gc/heap/tiny/allocs:objects"
)

var (
	pauses = Metric{"go_gc_duration_seconds", "Pauses of the garbage collector.", summary, []string{"quantile"}}
	lastGC = gauge("go_memstats_last_gc_time_seconds", "Seconds since 1970 of the last garbage collection.")
	goInfo = Metric{"go_info", "The version of Go, always 1.", Gauge, []string{"version"}}
)

// AddGo adds the metrics of Go's runtime.
func (p *Page) AddGo() {
	for _, m := range sampled {
		sum := 0.0
		samples := make([]metrics.Sample, len(m.of))
		for i, name := range m.of {
			samples[i].Name = name
		}
		metrics.Read(samples)
		for _, s := range samples {
			if s.Value.Kind() == metrics.KindUint64 {
				sum += float64(s.Value.Uint64())
			}
		}
		p.Add(m.Metric, sum)
	}
	p.Add(goInfo, 1, runtime.Version())
	gc := debug.GCStats{PauseQuantiles: make([]time.Duration, 5)}
	debug.ReadGCStats(&gc)
	for i, pause := range gc.PauseQuantiles {
		quantile := strconv.FormatFloat(float64(i)/float64(len(gc.PauseQuantiles)-1), 'g', -1, 64)
		p.Add(pauses, pause.Seconds(), quantile)
	}
	p.add(pauses, "_sum", gc.PauseTotal.Seconds(), nil)
	p.add(pauses, "_count", float64(gc.NumGC), nil)
	p.Add(lastGC, math.Max(0, float64(gc.LastGC.UnixNano())/1e9))
}
