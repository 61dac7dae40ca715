package helm

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/node/daemons"
	"github.com/driver-container/driver-container/node/metrics"
	"github.com/driver-container/driver-container/node/probe"
	"github.com/driver-container/driver-container/node/status"
)

const wanted = "535.261.03"

// serving is the status of a node without problems.
func serving() status.Snapshot {
	return status.Snapshot{
		State: status.Serving, Ready: true, Kernel: "6.1.0-42-amd64", Wanted: wanted, Image: "example.com/driver:535.261.03-debian12",
		Started: time.Now(), Updated: time.Now(), Phases: []status.Timing{{Phase: "lock", Seconds: 0.1}, {Phase: "modules", Seconds: 60}},
		Up:       &status.Driver{Version: wanted, Flavour: "open", Source: "compiled", Modules: []status.Module{{Name: "nvidia", SrcVersion: "A1"}}},
		Daemons:  []daemons.State{{Name: "nvidia-persistenced", Ready: true}},
		GPUs:     []status.GPU{{Address: "0000:3b:00.0", Name: "Tesla T4", UUID: "GPU-1", Works: true}},
		Counters: status.Counters{Compiled: 1, CacheMisses: 1},
	}
}

// waiting is the status of a node with many problems: an older driver is in use, a start failed before, a GPU
// does not work, a daemon is down.
func waiting() status.Snapshot {
	st := serving()
	st.State, st.WaitsFor, st.Ready, st.Reason = status.Waiting, status.ForHolders, false, "in use"
	st.Up.Version, st.Warnings = "470.256.02", []string{"one"}
	st.LastFailure = &status.Failure{Time: time.Now()}
	st.Daemons[0].Ready, st.Daemons[0].Restarts = false, 3
	st.GPUs = append(st.GPUs, status.GPU{Address: "0000:af:00.0", ID: "10de:1eb8", Reason: "it does not answer"})
	st.Holders = []kmod.Holder{{PID: 4711, PodNamespace: "team", PodName: "training-0"}}
	st.Counters.BlockedUnloads = 1
	return st
}

// serve starts a server of a node's metrics that runs until the test ends, and returns its address.
func serve(t *testing.T, st status.Snapshot) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it listens at once
	require.NoError(t, err)
	half := 0.5
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	server := metrics.New(metrics.Source{
		Status: func() status.Snapshot { return st },
		Live:   func() error { return nil },
		Ready: func() error {
			if !st.Ready {
				return errors.New(st.Reason)
			}
			return nil
		},
		GPUs: func(context.Context) (probe.Answer, error) {
			return probe.Answer{Devices: []probe.Device{{UUID: "GPU-1", Name: "Tesla T4", PCI: "0000:3b:00.0",
				Memory: &probe.Memory{Total: 16 << 30, Used: 3 << 30}, Utilization: &half, Licence: &probe.Licence{Licensed: true}}}}, nil
		},
	}, metrics.Options{GPUEvery: time.Second, Version: "test"})
	go func() { ended <- server.Serve(ctx, listener) }()
	t.Cleanup(func() {
		cancel()
		assert.NoError(t, <-ended)
	})
	return listener.Addr().String()
}

// get returns the body of a page that must exist.
func fetch(t *testing.T, url string) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	req := require.Value(http.NewRequestWithContext(ctx, http.MethodGet, url, nil))(t)
	resp := require.Value(http.DefaultClient.Do(req))(t)
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 4<<20))
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v: %s", url, resp.Status, err, body)
	}
	return body
}
