package devices

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
)

func pci(t *testing.T, sys, addr, vendor, class, driver string) {
	t.Helper()
	dir := filepath.Join(sys, "bus/pci/devices", addr)
	for name, text := range map[string]string{"vendor": vendor, "class": class, "device": "0x1eb8", "subsystem_vendor": "0x10de", "subsystem_device": "0x12a2"} {
		testfile.Write(t, filepath.Join(dir, name), text+"\n")
	}
	if driver != "" {
		require.NoError(t, os.Symlink("../../../bus/pci/drivers/"+driver, filepath.Join(dir, "driver")))
	}
}

func TestPCI(t *testing.T) {
	t.Parallel()
	sys := t.TempDir()
	pci(t, sys, "0000:af:00.0", "0x10de", "0x030200", "nvidia")
	pci(t, sys, "0000:05:00.0", "0x10de", "0x030000", "")
	pci(t, sys, "0000:05:00.1", "0x10de", "0x040300", "snd_hda_intel") // the audio function of a GPU
	pci(t, sys, "0000:06:00.0", "0x1002", "0x030000", "amdgpu")
	pci(t, sys, "0000:c1:00.0", "0x10de", "0x068000", "nvidia-nvswitch")
	pci(t, sys, "0000:d1:00.0", "0x15b3", "0x020700", "mlx5_core")
	require.NoError(t, os.MkdirAll(filepath.Join(sys, "bus/pci/devices/0000:e1:00.0"), 0o755)) // a device that disappears during the scan
	require.NoError(t, os.MkdirAll(filepath.Join(sys, "bus/pci/devices/not-an-address"), 0o755))

	gpus := require.Value(GPUs(sys))(t)
	gpu := GPU{Function: Function{Address: "0000:05:00.0", Vendor: 0x10de, Device: 0x1eb8, Class: 0x030000}, SubVendor: 0x10de, SubDevice: 0x12a2}
	second := gpu
	second.Address, second.Class, second.Driver = "0000:af:00.0", 0x030200, "nvidia"
	assert.Same(t, []GPU{gpu, second}, gpus)
	cards := require.Value(Functions(sys, func(f Function) bool { return f.Vendor == Mellanox }))(t)
	assert.Same(t, []Function{{Address: "0000:d1:00.0", Vendor: Mellanox, Device: 0x1eb8, Class: 0x020700, Driver: "mlx5_core"}}, cards)
}

func TestPCIWithoutBusAndWithNonsense(t *testing.T) {
	t.Parallel()
	if gpus, err := GPUs(t.TempDir()); err != nil || len(gpus) > 0 {
		t.Errorf("no bus: %v, %v", gpus, err)
	}
	for name, vendor := range map[string]string{"words": "NVIDIA", "too long": "0x10de0000000000000000000000000000000000000000000000000000000000000000000"} {
		sys := t.TempDir()
		pci(t, sys, "0000:05:00.0", vendor, "0x030000", "")
		assert.Errorf(t, assert.Err(GPUs(sys)), "%s: accepted", name)
	}
}

func TestBinding(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		driver, override           string
		lent, taken, bound, silent bool
	}{
		"ours":                          {driver: "nvidia", override: "(null)\n", bound: true, silent: true},
		"ours, and only ours":           {driver: "nvidia", override: "nvidia\n", bound: true, silent: true},
		"free":                          {override: "(null)\n", silent: true},
		"an older kernel":               {silent: true},
		"passed through":                {driver: "vfio-pci", override: "vfio-pci\n", lent: true},
		"passed through by its id":      {driver: "vfio-pci", override: "(null)\n", lent: true},
		"a variant of vfio-pci":         {driver: "nvgrace-gpu-vfio-pci", override: "(null)\n", lent: true},
		"reserved":                      {override: "vfio-pci\n", lent: true},
		"kept away at boot":             {driver: "pci-stub", override: "(null)\n", lent: true},
		"nouveau":                       {driver: "nouveau", override: "(null)\n", taken: true, silent: true},
		"ours, to be lent when it goes": {driver: "nvidia", override: "vfio-pci\n", bound: true, silent: true},
	} {
		sys := t.TempDir()
		pci(t, sys, "0000:05:00.0", "0x10de", "0x030200", c.driver)
		dir := filepath.Join(sys, "bus/pci/devices/0000:05:00.0")
		if c.override != "" {
			testfile.Write(t, filepath.Join(dir, "driver_override"), c.override)
		}
		testfile.Write(t, filepath.Join(dir, "config"), strings.Repeat("\xff", 256))
		gpus := require.Value(GPUs(sys))(t)
		if len(gpus) != 1 || gpus[0].Lent() != c.lent || gpus[0].Taken() != c.taken || gpus[0].Bound() != c.bound || gpus[0].Silent != c.silent {
			t.Errorf("%s: %+v: lent %v, taken %v, bound %v", name, gpus, gpus[0].Lent(), gpus[0].Taken(), gpus[0].Bound())
		}
	}
}

// TestSilent: a GPU whose configuration space is readable answers. A GPU that sleeps is not woken to
// find out.
func TestSilent(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	assert.Equalf(t, false, silent(dir), "no configuration space")
	for text, want := range map[string]bool{"\xde\x10\xb8\x1e": false, "\xff\xff\xff\xff rest": true, "\xff\xff": false, "": false} {
		testfile.Write(t, filepath.Join(dir, "config"), text)
		assert.Equalf(t, want, silent(dir), "%q", text)
	}
	testfile.Write(t, filepath.Join(dir, "config"), "\xff\xff\xff\xff")
	for state, want := range map[string]bool{"active\n": true, "suspended\n": false, "suspending\n": false, "unsupported\n": true} {
		testfile.Write(t, filepath.Join(dir, "power/runtime_status"), state)
		assert.Equalf(t, want, silent(dir), "%s", state)
	}
}

func TestOurs(t *testing.T) {
	t.Parallel()
	assert.Same(t, []GPU{{Function: Function{Address: "a"}}}, Ours([]GPU{{Function: Function{Address: "a"}}, {Function: Function{Address: "b", Driver: "vfio-pci"}}}))
	assert.Same(t, []GPU{{Function: Function{Driver: "vfio-pci"}}}, Ours([]GPU{{Function: Function{Driver: "vfio-pci"}}}))
}

// TestCompanions makes the nodes of nvidia-fs and gdrdrv with NVIDIA's mode, and IMEX channel 0 if the driver was told to make it,
// and removes them.
func TestCompanions(t *testing.T) {
	n := loaded(t)
	testfile.Write(t, filepath.Join(n.Proc, "devices"), "Character devices:\n195 nvidia\n236 nvidia-caps-imex-channels\n240 gdrdrv\n241 nvidia-fs\n511 nvidia-uvm\n")
	for name, number := range map[string]string{"nvidia-fs0": "241:0\n", "nvidia-fs1": "241:1\n", "nvidia-fs3": "241:3\n"} {
		testfile.Write(t, filepath.Join(n.Sys, "class/nvidia-fs-class", name, "dev"), number)
	}
	testfile.Write(t, filepath.Join(n.Proc, "driver/nvidia/params"), "CreateImexChannel0: 1\n")
	var made []Node
	require.NoError(t, n.Create(t.Context(), func(created []Node) { made = created }))
	for name, dev := range map[string]uint64{"nvidia-fs0": 241 << 8, "nvidia-fs1": 241<<8 | 1, "gdrdrv": 240 << 8, "nvidia-caps-imex-channels/channel0": 236 << 8} {
		path := filepath.Join(n.Dev, name)
		info := require.Value(os.Stat(path))(t)
		if !isDevice(path, dev) || info.Mode().Perm() != 0o666 {
			t.Errorf("%s: %s, want 0666 and %d", name, info.Mode(), dev)
		}
	}
	assert.ErrorIsf(t, assert.Err(os.Stat(filepath.Join(n.Dev, "nvidia-fs3"))), os.ErrNotExist, "behind a gap")
	require.NoError(t, n.Remove(made))
	assert.ErrorIsf(t, assert.Err(os.Stat(filepath.Join(n.Dev, "gdrdrv"))), os.ErrNotExist, "after Remove")
}
