package rpmdb

import (
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/tool"
)

// TestVerify lets Berkeley DB check files with every kind of page.
func TestVerify(t *testing.T) {
	tool.Real(t, "needs db5.3_verify of the real tier")
	for _, size := range []int{512, 1024, 4096, 32768} {
		for _, order := range []binary.ByteOrder{binary.LittleEndian, binary.BigEndian} {
			file := filepath.Join(t.TempDir(), "Packages")
			require.NoError(t, os.WriteFile(file, WriteBDB(sample(size), BDBLayout{order, size}), 0o600))
			if out, err := exec.CommandContext(t.Context(), "db5.3_verify", file).CombinedOutput(); err != nil {
				t.Errorf("db5.3_verify, pages of %d, %v: %v\n%s", size, order, err, out)
			}
		}
	}
}
