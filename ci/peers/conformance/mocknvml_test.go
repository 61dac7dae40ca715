package conformance

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/logtest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/ci/testkit/tool"
	"github.com/driver-container/driver-container/node/daemons"
	"github.com/driver-container/driver-container/node/devices"
	"github.com/driver-container/driver-container/node/fabric"
	"github.com/driver-container/driver-container/node/metrics"
	"github.com/driver-container/driver-container/node/probe"
	"github.com/driver-container/driver-container/node/status"
)

// mocked is a machine with two H100 as NVIDIA's mock of NVML has them. The image's driver-probe and its real
// nvidia-smi ask it: each of them judges what node/probe makes of the other.
type mocked struct {
	*testing.T
	judge  string // folder of the judge's programs
	dir    string // folder of the mock's configuration, and of the fabric manager's mark
	config string
	env    []string
}

func newMocked(t *testing.T) mocked {
	t.Helper()
	m := mocked{T: t, judge: mockNVML.programs(t), dir: t.TempDir()}
	profile := string(require.Value(os.ReadFile(filepath.Join(m.judge, "h100.yaml")))(t))
	profile = strings.ReplaceAll(profile, "550.163.01", driver)
	m.config = testfile.Write(t, filepath.Join(m.dir, "config.yaml"), strings.Replace(profile, "\nsystem:\n", "\nsystem:\n  num_devices: 2\n", 1))
	m.env = append(os.Environ(),
		"LD_LIBRARY_PATH="+m.judge, "MOCK_NVML_CONFIG="+m.config, "MOCK_FABRICMANAGER_STATE_DIR="+filepath.Join(m.dir, "fabric"))
	return m
}

// control changes the mock with its own program.
func (m mocked) control(args ...string) {
	m.Helper()
	args = append([]string{filepath.Join(m.judge, "nvml-mock-ctl")}, args...)
	_, err := tool.Run(m.Context(), "", append(m.env, "MOCK_NVML_OVERRIDES="+filepath.Join(m.dir, "overrides.yaml")), args...)
	require.NoError(m.T, err)
}

// asked is the answer of one source.
type asked struct {
	name string
	probe.Answer
	err error
}

// ask returns what driver-probe and nvidia-smi say.
func (m mocked) ask(usage bool) (all []asked) {
	m.Helper()
	bin := filepath.Join(unpacked(m.T, "full").root, "usr")
	for name, program := range map[string]string{probe.SourceProbe: bin + "/local/bin/driver-probe", probe.SourceSMI: "/nonexistent"} {
		question := new(probe.Prober).Ask
		if usage {
			question = new(probe.Prober).AskUsage
		}
		answer, err := question(m.Context(), probe.Options{Probe: program, SMI: bin + "/bin/nvidia-smi", Env: m.env})
		assert.Equal(m.T, name, answer.Source)
		all = append(all, asked{name, answer, err})
	}
	return all
}

// fabric returns why the GPUs' fabric keeps a node from being ready, and the warnings.
func (m mocked) fabric() (reason, warnings string) {
	m.Helper()
	all := m.ask(false)
	at := slices.IndexFunc(all, func(a asked) bool { return a.name == probe.SourceProbe })
	require.NoError(m.T, all[at].err)
	var r fabric.Registration
	reason = r.Judge(time.Now(), all[at].Devices, func(_ string, args ...any) { warnings += args[len(args)-1].(string) })
	return reason, warnings
}

// Both sources say the same of the GPUs, their memory and utilisation, also of one that may be divided.
func TestMockNVML(t *testing.T) {
	m := newMocked(t)
	m.control("util", "--gpu", "1", "37")
	m.control("set", "--gpu", "1", "memory.used_bytes=1073741824")
	m.control("set", "--gpu", "1", "mig.mode_current=enabled") // the mock has no instances
	var want []probe.Device
	for i, number := range []string{"1a", "1b"} {
		d := probe.Device{
			UUID: "GPU-01000100-0000-0000-0000-00000000000" + string(rune('0'+i)), Name: "NVIDIA H100 80GB HBM3", PCI: "0000:" + number + ":00.0",
			Memory: &probe.Memory{Total: 80 << 30, Used: uint64(i) << 30}, Utilization: new(0.37 * float64(i)),
		}
		want = append(want, d)
	}
	for _, a := range m.ask(true) {
		require.NoErrorf(t, a.err, "%s", a.name)
		assert.Equal(t, driver, a.Driver)
		for i := range a.Devices {
			a.Devices[i].Fabric = nil // nvidia-smi is not asked for it
		}
		assert.Samef(t, want, a.Devices, "%s", a.name)
		assert.Equal(t, a.name == probe.SourceProbe, a.CUDA == "12.4")
	}
}

// page returns the metrics of an instance that serves these GPUs.
func (m mocked) page() string {
	m.Helper()
	bin := filepath.Join(unpacked(m.T, "full").root, "usr/local/bin")
	s := metrics.New(metrics.Source{
		Status: func() status.Snapshot { return status.Snapshot{State: status.Serving} },
		GPUs: func(ctx context.Context) (probe.Answer, error) {
			return new(probe.Prober).AskUsage(ctx, probe.Options{Probe: filepath.Join(bin, "driver-probe"), Env: m.env})
		},
	}, metrics.Options{GPUEvery: time.Minute})
	listener := require.Value(net.Listen("tcp", "127.0.0.1:0"))(m.T) //nolint:noctx // it listens at once
	ctx, cancel := context.WithCancel(m.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, listener) }()
	request := require.Value(http.NewRequestWithContext(m.Context(), http.MethodGet, "http://"+listener.Addr().String()+"/metrics", nil))(m.T)
	answer := require.Value(http.DefaultClient.Do(request))(m.T)
	text := require.Value(io.ReadAll(answer.Body))(m.T)
	require.NoError(m.T, answer.Body.Close())
	cancel()
	require.NoError(m.T, <-ended)
	return string(text)
}

// A GPU that is lost is left out and named, whichever words the library has for it; it comes back. The status
// has the words, and the metrics have the other GPU.
func TestMockNVMLLost(t *testing.T) {
	m := newMocked(t)
	for _, mode := range []string{"lost", "fallen_off_bus"} {
		m.control("fail", "--gpu", "1", "--mode", mode)
		for _, a := range m.ask(true) {
			assert.ErrorIsf(t, a.err, probe.ErrPartly, "%s", a.name)
			assert.Equal(t, driver, a.Driver)
			if len(a.Devices) != 1 || a.Devices[0].PCI != "0000:1a:00.0" || !strings.Contains(strings.ReplaceAll(strings.ToLower(a.Err), "_", " "), "gpu is lost") {
				t.Errorf("%s: %+v", a.name, a)
			}
			var w probe.Watch
			w.Look([]devices.GPU{{Function: devices.Function{Address: "0000:1a:00.0", Driver: "nvidia"}}, {Function: devices.Function{Address: "0000:1b:00.0", Driver: "nvidia"}}}, nil)
			w.Answered(a.Answer)
			states, _ := w.States(func(string) []string { return nil })
			assert.Equal(t, [2]bool{true, false}, [2]bool{states[0].Works, states[1].Works})
			assert.Equal(t, a.Err, states[1].Reason)
		}
		page := m.page()
		for _, series := range []string{"gpus_answering 1", "gpu_query_success 0", `gpu_memory_total_bytes{gpu="0000:1a:00.0",model="NVIDIA H100 80GB HBM3",uuid="GPU-01000100-0000-0000-0000-000000000000"} 8.589934592e+10`} {
			assert.Contains(t, page, "\nnvidia_driver_"+series+"\n")
		}
		assert.Equal(t, false, strings.Contains(page, `gpu="0000:1b:00.0"`))
		m.control("fail", "--gpu", "1", "--mode", "healthy")
	}
	for _, a := range m.ask(true) {
		assert.NoErrorf(t, a.err, "%s", a.name)
		assert.Equal(t, 2, len(a.Devices))
	}
}

// What the fabric of the GPUs lacks is a reason or a warning, each condition in words of its own.
func TestMockNVMLFabric(t *testing.T) {
	m := newMocked(t)
	reason, _ := m.fabric()
	assert.Contains(t, reason, "in progress on 2 of 2 GPUs (0000:1a:00.0, 0000:1b:00.0); waiting for it until")
	m.control("set", "--gpu", "1", "fabric.state=not_started")
	reason, _ = m.fabric()
	assert.Contains(t, reason, "not started on 1 of 2 GPUs (0000:1b:00.0), in progress on 1 of 2 GPUs (0000:1a:00.0)")
	m.control("set", "--gpu", "all", "fabric.state=completed")
	m.control("set", "--gpu", "1", "fabric.state=completed")
	for condition, words := range map[string]string{
		"degraded_bandwidth": "degraded bandwidth", "route_recovery": "route recovery in progress", "route_unhealthy": "route unhealthy",
		"access_timeout_recovery": "access timeout recovery", "no_partition": "incorrect configuration", "insufficient_nvlinks": "incorrect configuration",
		"incorrect_sysguid": "incorrect configuration", "gpu_state_invalid": "incorrect configuration",
	} {
		m.control("fabric-health", "--gpu", "0", condition)
		reason, warnings := m.fabric()
		assert.Equalf(t, "", reason, "%s", condition)
		assert.Containsf(t, warnings, words, "%s", condition)
	}
	m.control("fabric-health", "--gpu", "0", "healthy")
	reason, warnings := m.fabric()
	assert.Equal(t, "", reason+warnings)
}

// fakeManager is nv-fabricmanager's way to go to the background when the fabric is set up, around NVIDIA's
// stand-in, which has only -c, reads no configuration and stays in the foreground.
const fakeManager = `#!/bin/sh
run=${0%/usr/bin/*}/var/run/nvidia-fabricmanager
[ "$1" = --config ] && [ -s "$2" ] || exit 2
setsid JUDGE/nv-fabricmanager -c "$2" >/dev/null 2>&1 &
echo $! >"$run/nv-fabricmanager.pid"
until [ -e "$MOCK_FABRICMANAGER_STATE_DIR/fabricmanager.ready" ]; do sleep 0.05; done
`

// The supervised fabric manager completes the registration of the GPUs. While it is down they are not ready;
// it is started again, and is ended with the supervisor. nvidia-imex as a service is ready for its own control
// program.
func TestMockNVMLDaemons(t *testing.T) {
	m := newMocked(t)
	state := filepath.Join(m.dir, "imex")
	f := fabric.Facts{Root: filepath.Join(m.dir, "root"), Work: filepath.Join(m.dir, "work"), Drivers: filepath.Join(m.dir, "drivers"),
		Machine: fabric.Machine{Switches: []string{"0000:05:00.0"}}}
	testfile.Tree(t, m.dir, map[string]string{
		"root/usr/bin/nv-fabricmanager":                    strings.ReplaceAll(fakeManager, "JUDGE", m.judge),
		"root/usr/share/nvidia/nvswitch/fabricmanager.cfg": "LOG_LEVEL=4\n",
		"root/usr/bin/nvidia-imex":                         "-> " + m.judge + "/nvidia-imex",
		"drivers/imex_nodes.cfg":                           "10.0.0.1\n",
	})
	require.NoError(t, os.Chmod(filepath.Join(f.Root, "usr/bin/nv-fabricmanager"), 0o755))
	m.env = append(m.env, "POD_IP=10.0.0.1", "IMEX_STATE_DIR="+state, "IMEX_NODES_CONFIG="+filepath.Join(f.Drivers, "imex_nodes.cfg"))
	specs := append(require.Value(fabric.Daemons(f))(t), require.Value(fabric.IMEX(f))(t)...)
	for i := range specs {
		specs[i].Env = m.env
	}
	reason, _ := m.fabric()
	assert.Contains(t, reason, "in progress")
	var l logtest.Log
	s := require.Value(daemons.Start(t.Context(), l.Logger(), specs...))(t)
	t.Cleanup(func() { assert.NoError(t, s.Stop(context.Background())) })
	serve := func() {
		t.Helper()
		for end := time.Now().Add(time.Minute); daemons.Down(s.States()) != ""; {
			if time.Now().After(end) {
				t.Fatalf("%s\n%s", daemons.Down(s.States()), l.String())
			}
			<-time.After(20 * time.Millisecond)
		}
		reason, _ := m.fabric()
		assert.Equal(t, "", reason)
		said, err := tool.Run(t.Context(), "", m.env, filepath.Join(m.judge, "nvidia-imex-ctl"), "-c", "x", "-q")
		assert.NoError(t, err)
		assert.Equal(t, "READY\n", said)
	}
	serve()
	for _, st := range s.States() {
		require.NoError(t, syscall.Kill(st.PID, syscall.SIGTERM)) // as an administrator might: it takes its mark away
	}
	for end := time.Now().Add(time.Minute); time.Now().Before(end); <-time.After(20 * time.Millisecond) {
		if !slices.ContainsFunc(s.States(), func(st daemons.State) bool { return st.Restarts == 0 }) {
			break
		}
	}
	serve()
	require.NoError(t, s.Stop(t.Context()))
	reason, _ = m.fabric()
	assert.Contains(t, reason, "in progress")
	err := exec.CommandContext(t.Context(), filepath.Join(m.judge, "nvidia-imex-ctl"), "-q").Run()
	assert.Errorf(t, err, "the service is gone")
	assert.Equal(t, true, errors.As(err, new(*exec.ExitError)))
}
