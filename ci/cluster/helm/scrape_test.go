package helm

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/tool"
)

// server is a Prometheus process of the test.
type server struct {
	t   *testing.T
	url string
}

// start runs Prometheus with a configuration until the test ends.
func start(t *testing.T, config string) server {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "prometheus.yml")
	require.NoError(t, os.WriteFile(path, []byte(config), 0o600))
	require.NoError(t, assert.Err(promtool(t, dir, nil, "check", "config", path)))
	address := tool.UnusedAddress(t)
	var log bytes.Buffer
	cmd := exec.Command("prometheus", "--config.file="+path, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+address, "--log.level=warn")
	cmd.Stdout, cmd.Stderr = &log, &log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatalf("start Debian's prometheus: %v; ci/e2e/setup installs it", err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		kill := time.AfterFunc(10*time.Second, func() { _ = cmd.Process.Kill() })
		defer kill.Stop()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("prometheus: %s", log.String())
		}
	})
	return server{t, "http://" + address}
}

// sample is one series of an answer.
type sample struct {
	Metric map[string]string
	Value  [2]any
}

func (s sample) number() float64 {
	f, _ := strconv.ParseFloat(fmt.Sprint(s.Value[1]), 64)
	return f
}

func (s server) query(expr string) []sample {
	s.t.Helper()
	var a struct {
		Status, Error string
		Data          struct{ Result []sample }
	}
	if err := json.Unmarshal(fetch(s.t, s.url+"/api/v1/query?query="+url.QueryEscape(expr)), &a); err != nil || a.Status != "success" {
		s.t.Fatalf("%s: %v, %+v", expr, err, a)
	}
	return a.Data.Result
}

// waitReady waits until Prometheus answers queries. It listens before that, and answers 503.
func (s server) waitReady() {
	s.t.Helper()
	client := &http.Client{Timeout: 5 * time.Second}
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		answer, err := client.Get(s.url + "/-/ready") //nolint:noctx // the client has a deadline
		if err == nil {
			answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return
			}
			err = errors.New(answer.Status)
		}
		if time.Now().After(end) {
			s.t.Fatalf("Prometheus is not ready: %v", err)
		}
	}
}

// until waits until an expression returns this number of series.
func (s server) until(expr string, n int) []sample {
	s.t.Helper()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		got := s.query(expr)
		if len(got) == n {
			return got
		}
		if time.Now().After(end) {
			s.t.Fatalf("%s: %d series, want %d: %v", expr, len(got), n, got)
		}
	}
}

// TestScrape: a real Prometheus scrapes a node that serves, one that does not serve, and one that does not
// exist.
func TestScrape(t *testing.T) {
	t.Parallel()
	tool.Real(t, "needs the Debian package prometheus")
	alerts := require.Value(filepath.Abs(chartFiles + "alerts.yaml"))(t)
	var config strings.Builder
	fmt.Fprintf(&config, "global: {scrape_interval: 1s, evaluation_interval: 1s}\nrule_files: [%s]\nscrape_configs:\n- job_name: nvidia-driver\n  static_configs:\n", alerts)
	for node, address := range map[string]string{"good": serve(t, serving()), "bad": serve(t, waiting()), "gone": tool.UnusedAddress(t)} {
		fmt.Fprintf(&config, "  - {targets: ['%s'], labels: {node: %s, namespace: gpu, pod: driver-%s}}\n", address, node, node)
	}
	s := start(t, config.String())
	s.waitReady()
	s.until("count_over_time(nvidia_driver_ready[1m]) >= 3", 2)
	for expr, want := range map[string]float64{
		`up{node="good"}`: 1, `up{node="gone"}`: 0,
		`nvidia_driver_ready{node="good"}`:                  1,
		`nvidia_driver_ready{node="bad"}`:                   0,
		`nvidia_driver_state{node="bad",state="waiting"}`:   1,
		`sum(nvidia_driver_state)`:                          2,
		`count(nvidia_driver_state)`:                        18,
		`nvidia_driver_gpu_memory_used_bytes{node="good"}`:  3 << 30,
		`nvidia_driver_gpu_memory_total_bytes{node="good"}`: 16 << 30,
		`nvidia_driver_gpu_utilization_ratio{node="good"}`:  0.5,
		`nvidia_driver_holder_processes{holder_namespace="team",holder_pod="training-0",pod="driver-bad"}`: 1,
		`nvidia_driver_info{driver="470.256.02"}`:                                                          1,
		`nvidia_driver_phase_duration_seconds{node="good",phase="modules"}`:                                60,
	} {
		if got := s.query(expr); len(got) != 1 || got[0].number() != want {
			t.Errorf("%s: %v, want %v", expr, got, want)
		}
	}
	// The rules show the problems of two of the three nodes; most alerts wait for their time before they fire.
	firing := map[string]bool{}
	for _, a := range s.until("ALERTS", len(expected)) {
		firing[a.Metric["alertname"]] = true
		assert.Equalf(t, false, a.Metric["node"] == "good", "%v", a.Metric)
	}
	for _, name := range expected {
		assert.Equalf(t, true, firing[name], "%s sees it", name)
	}
	healthy(t, s)
	for _, expr := range readDashboard(t).expressions() {
		concrete := strings.NewReplacer("$job", ".*", "$instance", ".*").Replace(expr)
		assert.Equalf(t, true, len(s.query(concrete)) > 0, "the dashboard gets an answer to %s", expr)
	}
}

// expected are the alerts that are pending a few seconds after the scrapes of TestScrape began.
var expected = []string{"NVIDIADriverNotReady", "NVIDIADriverStartFailed", "NVIDIADriverWaitsForHolders", "NVIDIADriverVersionSkew",
	"NVIDIADriverOutdated", "NVIDIADriverGPUMissing", "NVIDIADriverScrapeFails"}

// healthy fails unless every rule was evaluated without an error.
func healthy(t *testing.T, s server) {
	t.Helper()
	var a struct {
		Data struct {
			Groups []struct {
				Rules []struct{ Name, Health, LastError string }
			}
		}
	}
	if err := json.Unmarshal(fetch(t, s.url+"/api/v1/rules"), &a); err != nil || len(a.Data.Groups) != 1 {
		t.Fatalf("%v: %+v", err, a)
	}
	assert.Equalf(t, len(readRules(t).Groups[0].Rules), len(a.Data.Groups[0].Rules), "loaded rules")
	for _, r := range a.Data.Groups[0].Rules {
		assert.Equalf(t, "ok", r.Health, "%s: %s", r.Name, r.LastError)
	}
}
