package conformance

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/logtest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/node/driverroot"
)

// The roots that the entrypoint serves, in each of its ways, satisfy every program.
func TestServedRoots(t *testing.T) {
	ctx := private(t)
	dir := Prepare(t)
	for _, c := range []struct {
		name, image string
		storage     bool
	}{
		{"host storage", "full", true},
		{"bind of the image", "full", false},
		{"thin", "thin", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			image := unpacked(t, c.image).container(t, true)
			root := &driverroot.Root{Target: "/run/nvidia/driver", Image: image, ID: "0123456789abcdef", Version: driver, Log: logtest.New(t)}
			if c.storage {
				root.Storage = filepath.Join(t.TempDir(), "nvidia-driver")
			}
			begin := time.Now()
			staged := require.Value(root.Stage(ctx, nil))(t)
			require.NoError(t, root.Mount(ctx, staged))
			t.Cleanup(func() { assert.NoError(t, root.Unmount(ctx)) })
			t.Logf("served after %s", time.Since(begin).Round(time.Millisecond))
			report := run(t, Options{Consumer: dir, Root: root.Target, Version: driver})
			sound(t, report)
			// nvidia-container-runtime and libnvidia-container know one path for libraries and device nodes.
			assert.Equalf(t, root.Target, report.DevRoot, "consumers look for device nodes below")
		})
	}
}

// sound fails for a root with a problem. It also requires what must be found: a check that finds nothing proves
// nothing.
func sound(t *testing.T, r Report) {
	t.Helper()
	for _, p := range r.Problems() {
		t.Error(p)
	}
	for name, least := range map[string][6]int{ // libraries, links, programs, firmware, devices, hooks
		"nvidia-ctk": {20, 20, 4, 2, 6, 3}, "nvcdi": {20, 20, 4, 2, 6, 4}, "container of nvidia-ctk": {20, 0, 0, 0, 6, 0}, "container of nvcdi": {20, 0, 0, 0, 5, 0},
		"DRA driver's prestart": {},
	} {
		c, ok := r.Client(name)
		f := c.Found
		for i, list := range [][]string{f.Libraries, f.Links, f.Binaries, f.Firmware, f.Devices, f.Hooks} {
			if !ok || len(list) < least[i] {
				t.Errorf("%s found too little: %+v", name, f)
			}
		}
	}
	if t.Failed() {
		for _, c := range r.Clients {
			t.Logf("%s:\n%s", c.Name, c.Output)
		}
	}
}

func run(t *testing.T, o Options) Report {
	t.Helper()
	r := require.Value(Run(t.Context(), o))(t)
	t.Log(r)
	return r
}
