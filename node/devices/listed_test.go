package devices

import (
	"path/filepath"
	"testing"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/require"
	"github.com/driver-container/driver-container/ci/testfile"
)

// Texts of the driver, release 535, before and after the first initialisation.
const (
	fresh = `Model: 		 Unknown
IRQ:   		 0
GPU UUID: 	 GPU-????????-????-????-????-????????????
Video BIOS: 	 ??.??.??.??.??
Bus Type: 	 PCIe
DMA Size: 	 47 bits
DMA Mask: 	 0x7fffffffffff
Bus Location: 	 0000:05:00.0
Device Minor: 	 0
GPU Firmware: 	 N/A
GPU Excluded:	 No
`
	used = `Model: 		 Tesla T4
GPU UUID: 	 GPU-8a3c1f2e-0d4b-4a56-9c7e-1b2d3f405162
Bus Location: 	 0000:af:00.0
Device Minor: 	 1
GPU Excluded:	 Yes
`
)

func TestListed(t *testing.T) {
	t.Parallel()
	proc := t.TempDir()
	n := Nodes{Proc: proc}
	if got, err := n.Listed(); err != nil || got != nil {
		t.Errorf("without a driver: %v, %v", got, err)
	}
	gpus := filepath.Join(proc, "driver/nvidia/gpus")
	testfile.Write(t, filepath.Join(gpus, "0000:05:00.0/information"), fresh)
	testfile.Write(t, filepath.Join(gpus, "0000:af:00.0/information"), used)
	testfile.Write(t, filepath.Join(gpus, "no-address/information"), used)
	want := []ListedGPU{{Address: "0000:05:00.0"},
		{Address: "0000:af:00.0", Model: "Tesla T4", UUID: "GPU-8a3c1f2e-0d4b-4a56-9c7e-1b2d3f405162", Excluded: true}}
	got := require.Value(n.Listed())(t)
	assert.Same(t, want, got)
}

func FuzzListed(f *testing.F) {
	f.Add([]byte(fresh))
	f.Add([]byte(used))
	f.Fuzz(func(t *testing.T, text []byte) {
		got := parseListed("0000:05:00.0", text)
		if len(got.Model) > maxWord || len(got.UUID) > maxWord {
			t.Errorf("%+v", got)
		}
	})
}
