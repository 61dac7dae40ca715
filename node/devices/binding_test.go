package devices

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
)

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
	assert.Same(t, []GPU{{Address: "a"}}, Ours([]GPU{{Address: "a"}, {Address: "b", Driver: "vfio-pci"}}))
	assert.Same(t, []GPU{{Driver: "vfio-pci"}}, Ours([]GPU{{Driver: "vfio-pci"}}))
}
