package devices

import (
	"os"
	"path/filepath"
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
	gpu := GPU{Address: "0000:05:00.0", Vendor: 0x10de, Device: 0x1eb8, SubVendor: 0x10de, SubDevice: 0x12a2, Class: 0x030000}
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
