package devices

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
)

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
