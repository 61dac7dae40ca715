package exposition

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/require"
)

// parse reads a page as Prometheus does.
func parse(t *testing.T, page *Page) (map[string]*dto.MetricFamily, string) {
	t.Helper()
	var text bytes.Buffer
	require.NoError(t, page.Write(&text))
	written := text.String()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return require.Value(parser.TextToMetricFamilies(&text))(t), written
}

func TestWrite(t *testing.T) {
	t.Parallel()
	a := Metric{"a_total", "Counts \\ and\nlines.", Counter, []string{"z", "b"}}
	b := Metric{Name: "b", Help: "Plain.", Kind: Gauge}
	var page Page
	page.Add(b, math.Inf(1))
	page.Add(a, 2, "quote\" back\\ line\n \xff", "x")
	page.Add(a, 1.5e9, "", "x")
	page.Add(a, 7, "", "x") // the second one does not count
	page.Add(b, 3)
	_, text := parse(t, &page)
	assert.Equal(t, `# HELP a_total Counts \\ and\nlines.
# TYPE a_total counter
a_total{b="x",z=""} 1.5e+09
a_total{b="x",z="quote\" back\\ line\n "} 2
# HELP b Plain.
# TYPE b gauge
b +Inf
`, text)
	assert.Equal(t, "-Inf", number(math.Inf(-1)))
	assert.Equal(t, "NaN", number(math.NaN()))
	assert.ErrorContains(t, page.Write(broken{}), "broken")
	_, empty := parse(t, &Page{})
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
		var page Page
		page.Add(Metric{"m", "Help.", Gauge, []string{"l"}}, number, value)
		families, text := parse(t, &page)
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

// The metrics of Go and of the process have the names, types and labels of the client library's collectors,
// and values of the same kind.
func TestLikeClient(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(collectors.NewGoCollector()))
	require.NoError(t, registry.Register(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})))
	runtime.GC() // without one the time of the last one is 0, for the first reader
	// Both read a moment apart, in which memory may be returned to the system: one of some readings
	// has to agree.
	var differ []string
	for range 20 {
		if differ = differences(t, registry); len(differ) == 0 {
			return
		}
	}
	t.Errorf("%s", strings.Join(differ, "\n"))
}

// differences returns in what our metrics differ from those of the client library now.
func differences(t *testing.T, registry prometheus.Gatherer) (differ []string) {
	t.Helper()
	say := func(format string, args ...any) { differ = append(differ, fmt.Sprintf(format, args...)) }
	var page Page
	page.AddGo()
	require.NoError(t, page.AddProcess("/proc"))
	ours, text := parse(t, &page)
	theirs := map[string]*dto.MetricFamily{}
	for _, f := range require.Value(registry.Gather())(t) {
		theirs[f.GetName()] = f
	}
	assert.Same(t, slices.Sorted(maps.Keys(theirs)), slices.Sorted(maps.Keys(ours)))
	for name, want := range theirs {
		got := ours[name]
		if got.GetType() != want.GetType() || len(got.GetMetric()) != 1 || len(got.GetMetric()[0].GetLabel()) != len(want.GetMetric()[0].GetLabel()) {
			say("%s: %v instead of %v", name, got, want)
			continue
		}
		mine, other := value(got), value(want)
		if math.Abs(mine-other) > 0.5*math.Max(mine, other)+1e6 { // bytes differ by pages
			say("%s: %g, client_golang has %g", name, mine, other)
		}
	}
	for _, exact := range []string{"go_gc_gogc_percent", "go_gc_gomemlimit_bytes", "go_sched_gomaxprocs_threads", "process_max_fds", "process_virtual_memory_max_bytes", "process_start_time_seconds", "go_info"} {
		if mine, other := value(ours[exact]), value(theirs[exact]); mine != other {
			say("%s: %v, client_golang has %v\n%s", exact, mine, other, text)
		}
	}
	assert.Equal(t, 5, len(ours["go_gc_duration_seconds"].GetMetric()[0].GetSummary().GetQuantile()))
	return differ
}

func value(f *dto.MetricFamily) float64 {
	m := f.GetMetric()[0]
	return m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetSummary().GetSampleCount())
}

// A /proc that is incomplete or damaged costs what it does not say, and no more.
func TestDamagedProc(t *testing.T) {
	t.Parallel()
	good := map[string]string{
		"self/stat":        "7 (a) b) c) S 1 7 7 0 -1 4194560 1 2 3 4 150 50 0 0 20 0 5 0 1000 8192 3 18446744073709551615",
		"stat":             "cpu 1 2\nbtime 1760000000\nprocesses 5\n",
		"self/net/netstat": "TcpExt: A\nTcpExt: 1\nIpExt: X InOctets OutOctets\nIpExt: 9 10 20\n",
		"self/fd/0":        "",
	}
	write := func(change map[string]string) (*Page, error) {
		dir := t.TempDir()
		all := maps.Clone(good)
		maps.Copy(all, change)
		for name, text := range all {
			require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
		}
		page := &Page{}
		return page, page.AddProcess(dir)
	}
	page, err := write(nil)
	require.NoError(t, err)
	families, _ := parse(t, page)
	for name, want := range map[string]float64{
		"process_cpu_seconds_total": 2, "process_virtual_memory_bytes": 8192, "process_resident_memory_bytes": 3 * float64(os.Getpagesize()),
		"process_start_time_seconds": 1760000010, "process_open_fds": 1, "process_network_receive_bytes_total": 10, "process_network_transmit_bytes_total": 20,
	} {
		assert.Equal(t, want, value(families[name]))
	}
	for file, text := range map[string]string{"self/stat": "7 (a) S 1", "stat": "cpu\n", "self/net/netstat": "IpExt: InOctets\n"} {
		page, err := write(map[string]string{file: text})
		assert.ErrorContains(t, err, "read ")
		if families, _ := parse(t, page); len(families) < 5 || families["process_max_fds"] == nil {
			t.Errorf("%s: only %d metrics are left", file, len(families))
		}
	}
	assert.ErrorContains(t, (&Page{}).AddProcess(t.TempDir()), "self/stat")
}
