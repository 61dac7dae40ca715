package host

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/logtest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/node/config"
	"github.com/driver-container/driver-container/node/devices"
	"github.com/driver-container/driver-container/node/preflight"
	"github.com/driver-container/driver-container/node/status"
)

const (
	v470 = "470.256.02"
	v535 = "535.261.03"
)

// These tests check the implementation of the phases' interfaces as far as every machine has it. The lab
// tests the rest on a kernel with GPUs.

func TestDeleteInChild(t *testing.T) {
	t.Parallel()
	m := &liveKernel{release: "r"}
	for name, want := range map[string]error{"nvidia_uvm": nil, "once": nil, "busy": kmod.ErrInUse, "absent": fs.ErrNotExist} {
		assert.ErrorIsf(t, m.Delete(t.Context(), name), want, "%s", name)
	}
	assert.ErrorContainsf(t, m.Delete(t.Context(), "broken"), "unload broken: child", "broken")
	assert.ErrorContainsf(t, m.Delete(t.Context(), "shot"), "a signal ended", "shot")
	assert.Equal(t, "unknown", m.state("no_such_module"))
	if _, err := os.Stat("/proc/driver/nvidia/version"); err != nil {
		assert.ErrorIsf(t, assert.Err(m.Flavour()), fs.ErrNotExist, "no driver")
	}
	if inserted, err := m.InsertInTree(t.Context(), func(string) {}); err != nil || len(inserted) > 0 {
		t.Errorf("nothing to insert: %v, %v", inserted, err)
	}
}

func TestHardware(t *testing.T) {
	t.Parallel()
	cfg := config.Defaults()
	cfg.Run, cfg.StateDir, cfg.Drivers = t.TempDir(), t.TempDir(), t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(cfg.Drivers, "nvidia.conf"), []byte("NVreg_A=1\n"), 0o600))
	info := driverinfo.Description{Driver: v535, Branch: "R535", OS: "debian12", Arch: "amd64", Flavours: []string{driverinfo.Proprietary}}
	m := &hardware{cfg: cfg, info: info, supply: &supply{cfg: cfg, info: info, log: logtest.New(t)},
		supported: func() (preflight.Supported, error) { return preflight.Supported{}, fs.ErrNotExist }}
	gpus := require.Value(m.GPUs())(t)
	assert.NoError(t, assert.Err(m.Mellanox()))
	options, err := m.Options()
	if got := options.For("nvidia"); err != nil || len(got) == 0 || got[len(got)-1] != "NVreg_A=1" {
		t.Errorf("%v, %v", options, err)
	}
	flavour, reason, err := m.Flavour(gpus, "0.0.0-none", "auto")
	if err != nil || flavour != driverinfo.Proprietary || reason == "" {
		t.Errorf("%s, %s, %v", flavour, reason, err)
	}
	checks := m.Preflight(t.Context(), preflight.Input{Flavour: flavour, Release: "0.0.0-none", GPUs: gpus})
	found := map[string]preflight.Status{}
	for _, c := range checks {
		found[c.Name] = c.Status
	}
	assert.Equalf(t, preflight.Blocked, found[preflight.Available], "an image with nothing")
	assert.Equalf(t, preflight.Skipped, found[preflight.Headers], "an image with nothing")
	assert.Equalf(t, 0, len(m.Reasons("0000:05:00.0")), "reasons, although nothing was asked")
	assert.NoError(t, m.RemoveNodes(nil))
	m.supported = func() (preflight.Supported, error) { return preflight.Supported{}, errors.New("damaged") }
	if _, _, err := m.Flavour([]devices.GPU{{}}, "0.0.0-none", "auto"); err == nil {
		t.Error("a damaged list of GPUs, no error")
	}
}

// TestServes checks that an image without a toolchain serves the flavours of its modules, and of those in the
// cache.
func TestServes(t *testing.T) {
	t.Parallel()
	s := signing(t, "")
	info := driverinfo.Description{Driver: v535, Flavours: []string{driverinfo.Open, driverinfo.Proprietary},
		Precompiled: []driverinfo.Precompiled{{Kernel: imageKernel, Flavour: driverinfo.Open}}}
	m := &hardware{info: info, supply: s, supported: func() (preflight.Supported, error) { return preflight.Supported{}, nil }}
	see := func(release string, want ...string) {
		t.Helper()
		if got := m.serves(release); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", release, got, want)
		}
	}
	see(imageKernel, driverinfo.Open)
	see("6.1.0-1-amd64")
	require.Value(s.Keep(t.Context(), made(t, imageKernel), nil))(t)
	see(imageKernel, driverinfo.Open, driverinfo.Proprietary)
	if got, _, err := m.Flavour(nil, imageKernel, "auto"); err != nil || got != driverinfo.Proprietary {
		t.Errorf("%s, %v", got, err)
	}
	in := preflight.Input{Flavour: driverinfo.Proprietary, Release: imageKernel, HaveModules: true, Source: status.FromCache}
	for _, c := range m.Preflight(t.Context(), in) {
		if c.Name == preflight.Available && (c.Status != preflight.OK || !strings.Contains(c.Finding, "cache")) ||
			(c.Name == preflight.Headers || c.Name == preflight.Compiler || c.Name == preflight.Disk) && c.Status != preflight.Skipped {
			t.Errorf("%+v", c)
		}
	}
}

// TestDaemonStarter checks that a machine without the daemons' programs starts none.
func TestDaemonStarter(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"/usr/bin/nvidia-persistenced", "/usr/bin/nvidia-gridd"} {
		if _, err := os.Stat(program); err == nil {
			t.Skipf("%s is here", program)
		}
	}
	cfg := config.Defaults()
	cfg.VGPU, cfg.Drivers = true, t.TempDir()
	d := require.Value((&daemonStarter{cfg: cfg, log: logtest.New(t)}).Start(t.Context()))(t)
	assert.Equalf(t, 0, len(d.PIDs()), "%v", d.PIDs())
	assert.NoError(t, d.Stop(t.Context()))
}
