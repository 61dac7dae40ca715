package devices

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/require"
)

// IMEX channel 0 gets a device file if the driver was told to make it.
func TestIMEXChannel(t *testing.T) {
	t.Parallel()
	n := Nodes{t.TempDir(), t.TempDir(), t.TempDir()}
	params := filepath.Join(n.Proc, "driver/nvidia/params")
	require.NoError(t, os.MkdirAll(filepath.Dir(params), 0o755))
	majors := map[string]uint32{"nvidia-caps-imex-channels": 236}
	for text, want := range map[string]int{"CreateImexChannel0: 1\n": 1, "CreateImexChannel0: 0\n": 0, "": 0} {
		require.NoError(t, os.WriteFile(params, []byte(text), 0o644))
		got := require.Value(n.wantIMEX(majors, owner{mode: 0o666, modify: true}))(t)
		if len(got) != want || want == 1 && (got[0].name != "nvidia-caps-imex-channels/channel0" || got[0].major != 236 || got[0].minor != 0) {
			t.Errorf("%q: %+v", text, got)
		}
	}
	if got := require.Value(n.wantIMEX(nil, owner{}))(t); len(got) != 0 {
		t.Errorf("without the driver's channels: %+v", got)
	}
}
