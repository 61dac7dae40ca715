package metrics

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/node/daemons"
	"github.com/driver-container/driver-container/node/probe"
	"github.com/driver-container/driver-container/node/status"
)

func TestCollect(t *testing.T) {
	t.Parallel()
	half := 0.5
	g := &gpus{latest: &answer{at: time.Now(), ok: true, took: 1500 * time.Millisecond, devices: []probe.Device{t4(3<<30, &half)}}}
	got := series(t, &Server{source: steady(busy()), gpus: g, version: "v1"})
	for name := range got {
		if strings.HasPrefix(name, "entrypoint_build_info{goversion=go1.") {
			delete(got, name)
		}
	}
	const gpu = "{gpu=0000:3b:00.0,model=Tesla T4,uuid=GPU-1}"
	want := map[string]float64{
		"info{driver=470.256.02,flavour=proprietary,image=,kernel=6.1.0-42-amd64,module=A1,source=cache}":   1,
		"wanted_info{driver=535.261.03,image=example.com/driver:535.261.03-debian12,kernel=6.1.0-42-amd64}": 1,
		"ready":                0,
		"state{state=waiting}": 1,
		"waits_for{what=lock}": 0, "waits_for{what=holders}": 1, "waits_for{what=clearance}": 0, "waits_for{what=preflight}": 0, "waits_for{what=toolkit}": 0,
		"warnings":                             1,
		"instance_start_timestamp_seconds":     1760000000,
		"last_failure_timestamp_seconds":       1760000001,
		"status_update_timestamp_seconds":      1760000123.5,
		"phase_duration_seconds{phase=lock}":   0.5,
		"phase_duration_seconds{phase=survey}": 0.25,
		"compiles_total{result=ok}":            1, "compiles_total{result=failed}": 2,
		"cache_lookups_total{result=hit}": 3, "cache_lookups_total{result=miss}": 4,
		"blocked_unloads_total": 5,
		"holders":               3,
		"holder_processes{holder_namespace=a,holder_pod=x}": 2, "holder_processes{holder_namespace=,holder_pod=}": 1,
		"companion_loaded{companion=nvidia-fs,version=2.13.5}": 1, "companion_loaded{companion=gdrdrv,version=}": 0,
		"daemon_up{daemon=nvidia-persistenced}": 1, "daemon_restarts_total{daemon=nvidia-persistenced}": 7,
		"daemon_up{daemon=nv-fabricmanager}": 0, "daemon_restarts_total{daemon=nv-fabricmanager}": 0,
		"gpus_expected": 2, "gpus_working": 1, "gpus_lent": 1, "gpus_lost": 1,
		"gpu_state{driver=nvidia,gpu=0000:3b:00.0,state=ours}": 1, "gpu_state{driver=nvidia,gpu=0000:af:00.0,state=lost}": 1, "gpu_state{driver=vfio-pci,gpu=0000:b0:00.0,state=lent}": 1,
		"gpu_up" + gpu: 1, "gpu_up{gpu=0000:af:00.0,model=,uuid=}": 0,
		"gpu_fabric_registered" + gpu: 0,
		"gpu_query_success":           1, "gpu_query_duration_seconds": 1.5, "gpus_answering": 1,
		"gpu_memory_used_bytes" + gpu: 3 << 30, "gpu_memory_total_bytes" + gpu: 16 << 30, "gpu_utilization_ratio" + gpu: 0.5, "gpu_licensed" + gpu: 1,
	}
	for _, s := range []string{"starting", "serving", "degraded", "stopping", "detached", "restored", "absent", "failed"} {
		want["state{state="+s+"}"] = 0
	}
	assert.Same(t, want, got)
}

// Unknown values have no series; a successful start shows its image and how long it took.
func TestSparse(t *testing.T) {
	t.Parallel()
	waits := series(t, &Server{source: steady(status.Snapshot{Wanted: "1"}), gpus: &gpus{}})
	for name := range waits {
		for _, not := range []string{"gpu", "info{", "start_", "instance", "status", "last_", "holder_processes", "phase", "daemon"} {
			assert.Equalf(t, false, strings.HasPrefix(name, not), "%s of an instance that waits for the lock", name)
		}
	}
	assert.Equal(t, 1.0, waits["state{state=waiting}"])
	assert.Equal(t, 0.0, waits["ready"])
	up := series(t, &Server{source: steady(serving()), gpus: &gpus{}})
	const info = "info{driver=535.261.03,flavour=proprietary,image=example.com/driver:535.261.03-debian12,kernel=6.1.0-42-amd64,module=A1,source=cache}"
	if up["start_duration_seconds"] != 9.75 || up["ready"] != 1 || up["holders"] != 0 || up[info] != 1 {
		t.Error(up)
	}
}

// No text from the driver, the kernel or Kubernetes makes a scrape fail.
func TestHostile(t *testing.T) {
	t.Parallel()
	st := busy()
	st.Image, st.Kernel = "\xff\xfe"+strings.Repeat("x", 299)+"é", ""
	st.State = "of another version"
	st.Daemons = []daemons.State{{Name: "x"}, {Name: "x"}, {Name: "x\xff"}}
	st.GPUs = append(st.GPUs, st.GPUs...)
	st.Holders = nil
	for i := range 1000 {
		st.Holders = append(st.Holders, kmod.Holder{PodName: strings.Repeat("p", i+1)})
	}
	all := series(t, &Server{source: steady(st), gpus: &gpus{}})
	pods, processes := 0, 0.0
	for name, value := range all {
		if strings.HasPrefix(name, "holder_processes") {
			pods, processes = pods+1, processes+value
		}
		assert.Equalf(t, false, len(name) > 700, "%d bytes: %.50s", len(name), name)
	}
	if pods != 65 || processes != 1000 || all["gpus_expected"] != 4 {
		t.Error(pods, processes, all["gpus_expected"])
	}
}

// parse reads a page as Prometheus does.
func parse(t *testing.T, p *page) (map[string]*dto.MetricFamily, string) {
	t.Helper()
	var text bytes.Buffer
	require.NoError(t, p.write(&text))
	written := text.String()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return require.Value(parser.TextToMetricFamilies(&text))(t), written
}

func TestWrite(t *testing.T) {
	t.Parallel()
	a := metric{"a_total", "Counts \\ and\nlines.", "counter", []string{"z", "b"}}
	b := metric{name: "b", help: "Plain.", kind: "gauge"}
	var p page
	p.add(b, math.Inf(1))
	p.add(a, 2, "quote\" back\\ line\n \xff", "x")
	p.add(a, 1.5e9, "", "x")
	p.add(a, 7, "", "x") // the second one does not count
	p.add(b, 3)
	_, text := parse(t, &p)
	assert.Equal(t, `# HELP a_total Counts \\ and\nlines.
# TYPE a_total counter
a_total{b="x",z=""} 1.5e+09
a_total{b="x",z="quote\" back\\ line\n "} 2
# HELP b Plain.
# TYPE b gauge
b +Inf
`, text)
	assert.ErrorContains(t, p.write(broken{}), "broken")
	_, empty := parse(t, &page{})
	assert.Equal(t, "", empty)
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("broken") }

// Whatever a label has, the client library's encoder writes the same line, and the parser reads it back.
func FuzzLabel(f *testing.F) {
	for _, s := range []string{"", "x", "a\"b", "a\\b", "a\nb", "\xff", "é", "{}", "\r", "\x00"} {
		f.Add(s, 1.5)
	}
	f.Fuzz(func(t *testing.T, value string, number float64) {
		var p page
		p.add(metric{"m", "Help.", "gauge", []string{"l"}}, number, value)
		families, text := parse(t, &p)
		m := families["m"].GetMetric()
		if len(families) != 1 || len(m) != 1 || len(m[0].GetLabel()) != 1 {
			t.Fatalf("%q", text)
		}
		if got := m[0].GetGauge().GetValue(); got != number && !math.IsNaN(number) {
			t.Errorf("%v instead of %v", got, number)
		}
		var theirs bytes.Buffer
		require.Value(expfmt.MetricFamilyToText(&theirs, families["m"]))(t)
		assert.Equal(t, theirs.String(), text)
	})
}
