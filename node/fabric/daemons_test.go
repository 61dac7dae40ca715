package fabric

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/fabrictest"
	"github.com/driver-container/driver-container/ci/testkit/logtest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/node/daemons"
)

// run starts the daemons of a machine.
func run(t *testing.T, f Facts) *daemons.Supervisor {
	t.Helper()
	var l logtest.Log
	s := require.Value(daemons.Start(t.Context(), l.Logger(), require.Value(Daemons(f))(t)...))(t)
	t.Cleanup(func() {
		assert.NoError(t, s.Stop(context.Background()))
	})
	return s
}

// until waits for states of the daemons.
func until(t *testing.T, s *daemons.Supervisor, what string, accept func([]daemons.State) bool) []daemons.State {
	t.Helper()
	timeout := time.After(2 * time.Minute)
	for {
		if states := s.States(); accept(states) {
			return states
		}
		select {
		case <-s.Changed():
		case <-timeout:
			t.Fatalf("never: %s; states %+v", what, s.States())
		}
	}
}

func ready(states []daemons.State) bool {
	return !slices.ContainsFunc(states, func(s daemons.State) bool { return !s.Ready })
}

// journal returns what the stand-ins did since the last call.
func (f Facts) journal(t *testing.T) string {
	t.Helper()
	text := f.noted(t)
	if text != "" {
		require.NoError(t, os.Truncate(f.path(fabrictest.Journal), 0))
	}
	return text
}

// noted returns the journal; there is none before the first stand-in runs.
func (f Facts) noted(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(f.path(fabrictest.Journal))
	if !errors.Is(err, fs.ErrNotExist) {
		require.NoError(t, err)
	}
	return strings.ReplaceAll(string(text), filepath.Dir(f.Root), "")
}

// tell makes a stand-in fail; "" makes it work again.
func (f Facts) tell(t *testing.T, program, mode string) {
	t.Helper()
	file := filepath.Join(f.Root, fabrictest.Modes, program+".mode")
	if mode == "" {
		require.NoError(t, os.Remove(file))
		return
	}
	testfile.Write(t, file, mode)
}

// Up to NVLink 4 the fabric manager runs alone, with the configuration as it was changed.
func TestSwitches(t *testing.T) {
	t.Parallel()
	f := machine(t, image, nvswitch("0000:05:00.0"), nvswitch("0000:06:00.0"))
	f.Settings, f.Mode = map[string]string{"LOG_LEVEL": "2", "NEW": "a=b"}, ModeShared
	s := run(t, f)
	states := s.States()
	if !ready(states) || len(states) != 1 || states[0].Name != Manager {
		t.Fatalf("%+v", states)
	}
	assert.Equal(t, "nv-fabricmanager starts --config /work/fabricmanager.cfg\n"+
		"nv-fabricmanager configuration DAEMONIZE=1 FABRIC_MODE=1 LOG_LEVEL=2 NEW=a=b\nnv-fabricmanager has set up the fabric\n", f.journal(t))

	// It dies: that is told, with what it means, and it is started again.
	require.NoError(t, unix.Kill(states[0].PID, unix.SIGKILL))
	down := until(t, s, "down", func(st []daemons.State) bool { return !st[0].Ready })
	assert.Contains(t, daemons.Down(down), "new CUDA programs fail with error 802, and NVLink errors go unnoticed; running CUDA programs may have been ended")
	until(t, s, "up again", func(st []daemons.State) bool { return ready(st) && st[0].Restarts == 1 })

	// It fails, and says why in its log only.
	f.tell(t, "nv-fabricmanager", "fails")
	require.NoError(t, unix.Kill(s.States()[0].PID, unix.SIGKILL))
	failed := until(t, s, "fails", func(st []daemons.State) bool { return strings.Contains(st[0].Reason, "it was told to fail") })
	assert.Contains(t, failed[0].Reason, "exit status 1")
	f.tell(t, "nv-fabricmanager", "")
	until(t, s, "up once more", ready)
	f.journal(t)
	assert.NoError(t, s.Stop(t.Context()))
	assert.Equal(t, "nv-fabricmanager stops\n", f.journal(t))
}

// With NVLink 5 NVLSM comes first, on the right port; the fabric manager uses the same port, and is started
// again after it.
func TestNVLink5(t *testing.T) {
	t.Parallel()
	f := machine(t, image, modules, card("0000:05:00.0", "mlx5_0", management, disabled), card("0000:06:00.0", "mlx5_1", management, usable, usable),
		card("0000:07:00.0", "mlx5_2", vpd("MN=MLNX"), "0x0 fe80::1"))
	s := run(t, f)
	states := s.States()
	if !ready(states) || len(states) != 2 || states[0].Name != SubnetManager || states[1].Name != Manager {
		t.Fatalf("%+v", states)
	}
	assert.Equal(t, "mlx5_1 port 1, GUID "+guid+", the first of 2 that could be used", states[0].Detail)
	const first = "nvlsm starts --config /root/usr/share/nvidia/nvlsm/nvlsm.conf --pid_file /root/var/run/nvidia-fabricmanager/nvlsm.pid --log_file stdout --guid " + guid +
		"\nnvlsm serves\nnv-fabricmanager starts --config /work/fabricmanager.cfg --fm-sm-mgmt-port-guid " + guid +
		"\nnv-fabricmanager configuration LOG_LEVEL=4 FABRIC_MODE=0 DAEMONIZE=1\nnv-fabricmanager has set up the fabric\n"
	assert.Equal(t, first, f.journal(t))

	require.NoError(t, unix.Kill(states[0].PID, unix.SIGKILL))
	again := until(t, s, "both are up again", func(st []daemons.State) bool { return ready(st) && st[0].Restarts == 1 && st[1].Restarts == 1 })
	assert.Equal(t, "nv-fabricmanager stops\n"+first, f.journal(t))

	require.NoError(t, unix.Kill(again[1].PID, unix.SIGKILL))
	until(t, s, "the fabric manager is up again", func(st []daemons.State) bool { return ready(st) && st[0].Restarts == 1 && st[1].Restarts == 2 })
	assert.Equalf(t, false, strings.Contains(f.journal(t), "nvlsm"), "the end of the fabric manager concerns NVLSM")
	assert.NoError(t, s.Stop(t.Context()))
	assert.Equal(t, "nv-fabricmanager stops\nnvlsm stops\n", f.journal(t))
}

// Modules that are missing are asked for and named; the daemons start when they and the port are there.
func TestModulesMissing(t *testing.T) {
	t.Parallel()
	f := machine(t, image, card("0000:05:00.0", "", management), map[string]string{"sys/module/mlx5_core/": ""})
	var asked []string
	f.LoadModules = func(_ context.Context, names ...string) error {
		asked = names
		return errors.New("the kernel's modules have no ib_umad")
	}
	s := run(t, f)
	states := s.States()
	assert.Same(t, []string{"mlx5_ib", "ib_umad"}, asked)
	assert.Contains(t, states[0].Reason, "kernel module mlx5_ib, ib_umad is not loaded (the kernel's modules have no ib_umad): install the network driver")
	assert.Equal(t, "it waits for nvlsm", states[1].Reason)
	for name := range modules {
		require.NoError(t, os.MkdirAll(filepath.Join(filepath.Dir(f.Sys), name), 0o755))
	}
	until(t, s, "no port", func(st []daemons.State) bool {
		return strings.Contains(st[0].Reason, "0000:05:00.0 has no InfiniBand device")
	})
	add := machine(t, card("0000:05:00.0", "mlx5_0", management, usable))
	require.NoError(t, os.Rename(filepath.Join(add.Sys, "class"), filepath.Join(f.Sys, "class")))
	until(t, s, "up", ready)
}

func TestIMEX(t *testing.T) {
	t.Parallel()
	f := machine(t, image, map[string]string{"root/" + imexConfig: "SERVER_PORT=50000\nDAEMONIZE=1\nIMEX_NODE_CONFIG_FILE=/etc/other"})
	assert.ErrorContains(t, assert.Err(IMEX(f)), imexNodes)
	nodes := filepath.Join(f.Drivers, imexNodes)
	require.NoError(t, os.WriteFile(nodes, []byte("# none\n"), 0o644))
	assert.ErrorContains(t, assert.Err(IMEX(f)), "has no address")
	require.NoError(t, os.WriteFile(nodes, []byte("10.0.0.1\n10.0.0.2\n"), 0o644))
	specs := require.Value(IMEX(f))(t)
	var l logtest.Log
	s := require.Value(daemons.Start(t.Context(), l.Logger(), specs...))(t)
	t.Cleanup(func() { _ = s.Stop(context.Background()) })
	assert.Equal(t, true, ready(s.States()))
	assert.Equal(t, "SERVER_PORT=50000\nDAEMONIZE=0\nIMEX_NODE_CONFIG_FILE="+nodes+"\n", string(require.Value(os.ReadFile(filepath.Join(f.Work, "imex.cfg")))(t)))
	for end := time.Now().Add(time.Minute); !strings.Contains(f.noted(t), " nodes ") && time.Now().Before(end); {
		time.Sleep(5 * time.Millisecond) // such a daemon counts as ready when it has run for a while
	}
	assert.NoError(t, s.Stop(t.Context()))
	assert.Equal(t, "nvidia-imex starts -c /work/imex.cfg\nnvidia-imex nodes 10.0.0.1 10.0.0.2\nnvidia-imex stops\n", f.journal(t))
	require.NoError(t, os.Remove(f.path(imexProgram)))
	assert.ErrorContains(t, assert.Err(IMEX(f)), "no /usr/bin/nvidia-imex")
}
