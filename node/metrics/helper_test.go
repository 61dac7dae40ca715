package metrics

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/node/daemons"
	"github.com/driver-container/driver-container/node/probe"
	"github.com/driver-container/driver-container/node/status"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// busy is a status in which every field is set: an upgrade that waits, on a node with two GPUs and a
// lent one.
func busy() status.Snapshot {
	return status.Snapshot{
		State: status.Waiting, WaitsFor: status.ForHolders, Reason: "in use", Kernel: "6.1.0-42-amd64", Wanted: "535.261.03", Image: "example.com/driver:535.261.03-debian12",
		Started: time.Unix(1760000000, 0), Updated: time.UnixMilli(1760000123500), Warnings: []string{"one"},
		LastFailure: &status.Failure{Time: time.Unix(1760000001, 0)},
		Phases:      []status.Timing{{Phase: "lock", Seconds: 0.5}, {Phase: "survey", Seconds: 0.25}, {Phase: "lock", Seconds: 9}},
		Up: &status.Driver{Version: "470.256.02", Flavour: "proprietary", Source: "cache",
			Modules: []status.Module{{Name: "nvidia_uvm", SrcVersion: "2"}, {Name: "nvidia", SrcVersion: "A1"}}},
		Counters:   status.Counters{Compiled: 1, CompilesFailed: 2, CacheHits: 3, CacheMisses: 4, BlockedUnloads: 5},
		Daemons:    []daemons.State{{Name: "nvidia-persistenced", Ready: true, Restarts: 7}, {Name: "nv-fabricmanager"}},
		Companions: []status.Companion{{Name: "nvidia-fs", Version: "2.13.5", Loaded: true}, {Name: "gdrdrv", Reason: "this image has none"}},
		GPUs: []status.GPU{{Address: "0000:3b:00.0", Name: "Tesla T4", UUID: "GPU-1", State: status.GPUOurs, Driver: "nvidia", Works: true, Fabric: probe.FabricInProgress},
			{Address: "0000:af:00.0", ID: "10de:1eb8", State: status.GPULost, Driver: "nvidia", Reason: "it is lost"},
			{Address: "0000:b0:00.0", ID: "10de:1eb8", State: status.GPULent, Driver: "vfio-pci", Reason: "lent to vfio-pci"}},
		Holders: []kmod.Holder{{PID: 1, PodNamespace: "a", PodName: "x"}, {PID: 2, PodNamespace: "a", PodName: "x"}, {PID: 3}},
	}
}

func serving() status.Snapshot {
	st := busy()
	st.State, st.Ready, st.Reason, st.Holders = status.Serving, true, "", nil
	st.Up.Version = st.Wanted
	return st
}

func t4(used uint64, utilization *float64) probe.Device {
	return probe.Device{UUID: "GPU-1", Name: "Tesla T4", PCI: "0000:3b:00.0", Licence: &probe.Licence{Licensed: true}, Memory: &probe.Memory{Total: 16 << 30, Used: used}, Utilization: utilization}
}

// steady is a source whose status does not change.
func steady(st status.Snapshot) Source {
	return Source{Status: func() status.Snapshot { return st }, Live: func() error { return nil }, Ready: func() error {
		if st.Ready {
			return nil
		}
		return errors.New("the driver is not ready: " + st.Reason)
	}}
}

// series returns what a server puts on a page, as Prometheus's own parser reads it:
// "name{label=value,...}" to value, without the namespace.
func series(t *testing.T, s *Server) map[string]float64 {
	t.Helper()
	var p page
	s.collect(&p)
	families, _ := parse(t, &p)
	all := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			name := strings.TrimPrefix(f.GetName(), namespace)
			if len(labels) > 0 {
				name += "{" + strings.Join(labels, ",") + "}"
			}
			all[name] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return all
}

// serve starts a server for the test and returns its address.
func serve(t *testing.T, s *Server) string {
	t.Helper()
	listener := require.Value(net.Listen("tcp", "127.0.0.1:0"))(t) //nolint:noctx // it listens at once
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, listener) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-ended:
			assert.NoError(t, err)
		case <-time.After(time.Minute):
			t.Error("the server does not end")
		}
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	})
	return "http://" + listener.Addr().String()
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	return request(t, http.MethodGet, url)
}

func request(t *testing.T, method, url string) (int, string) {
	t.Helper()
	req := require.Value(http.NewRequestWithContext(t.Context(), method, url, nil))(t)
	resp := require.Value(http.DefaultTransport.RoundTrip(req))(t)
	defer resp.Body.Close()
	body := require.Value(io.ReadAll(io.LimitReader(resp.Body, 1<<20)))(t)
	return resp.StatusCode, string(body)
}
