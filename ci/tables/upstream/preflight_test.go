package main

import (
	"cmp"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/images/gpus"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/node/devices"
	"github.com/driver-container/driver-container/node/preflight"
)

// TestPreflight: a node, which reads the list of its own driver, and the table agree about every GPU of the
// lists: whether the driver drives it, and which flavours do. ci/tables/upstream/gpus gives the whole lists in
// GPU_LISTS; otherwise these are the excerpts.
func TestPreflight(t *testing.T) {
	t.Parallel()
	folder := cmp.Or(os.Getenv("GPU_LISTS"), "testdata")
	files := require.Value(filepath.Glob(filepath.Join(folder, "*.json")))(t)
	if len(files) < 7 {
		t.Fatalf("%d lists in %s", len(files), folder)
	}
	compared := 0
	for _, file := range files {
		data := require.Value(os.ReadFile(file))(t)
		number := filepath.Base(file)[:3]
		branch := require.Value(strconv.Atoi(number))(t)
		list := require.Value(preflight.ParseSupported(data))(t)
		for _, e := range require.Value(supported(data, branch))(t) {
			chip, ok := list.Lookup(devices.GPU{Function: devices.Function{Device: e.device}})
			g, known := gpus.Lookup(e.device)
			if !ok || !known {
				t.Errorf("%s: %04x: in the node's list %v, in the table %v", file, e.device, ok, known)
				continue
			}
			compared++
			driven := chip.Legacy == ""
			assert.Equalf(t, driven, g.Check(number, "") == nil, "%s: %s %s: driven by %s", file, g.ID(), g.Name, number)
			if driven && branch >= firstWithOpen { // older lists do not know the open modules
				assert.Equalf(t, chip.Open, g.Check(number, matrix.Open) == nil, "%s: %s %s: open modules", file, g.ID(), g.Name)
			}
		}
	}
	t.Logf("%d rows of %d lists", compared, len(files))
}
