package conformance

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/peers/conformance/inside"
	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/logtest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/node/driverroot"
)

// The roots that the entrypoint serves, in each of its ways, satisfy every program and the project's linter.
func TestServedRoots(t *testing.T) {
	ctx := private(t)
	dir, image := Prepare(t), unpacked(t)
	for _, c := range []struct {
		name    string
		storage bool
	}{
		{"host storage", true},
		{"bind of the image", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := driverroot.Root{Target: "/run/nvidia/driver", Image: container(t, image, true), ID: "0123456789abcdef", Version: driver, Log: logtest.New(t)}
			if c.storage {
				root.Storage = filepath.Join(t.TempDir(), "nvidia-driver")
			}
			begin := time.Now()
			staged := require.Value(root.Stage(ctx))(t)
			var private *driverroot.NotSharedError
			if err := staged.Mount(ctx); err != nil && !errors.As(err, &private) {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if lazy, err := root.Unmount(ctx); err != nil || len(lazy) > 0 {
					t.Errorf("unmount: %v, lazily %v", err, lazy)
				}
			})
			t.Logf("served after %s", time.Since(begin).Round(time.Millisecond))
			report := run(t, dir, Options{Root: root.Target, Version: driver})
			sound(t, report)
			// nvidia-container-runtime and libnvidia-container know one path for libraries and device nodes.
			assert.Equalf(t, root.Target, report.DevRoot, "consumers look for device nodes below")
		})
	}
}

// sound fails for a root with a problem or finding. It also requires what must be found: a check that finds
// nothing proves nothing.
func sound(t *testing.T, r inside.Report) {
	t.Helper()
	for _, p := range r.Problems() {
		t.Error(p)
	}
	for _, l := range r.Lint {
		t.Errorf("our linter: %s", l)
	}
	for name, want := range map[string]inside.Inventory{
		"nvidia-ctk":              {Libraries: make([]string, 20), Links: make([]string, 20), Binaries: make([]string, 4), Firmware: make([]string, 2), Devices: make([]string, 6), Hooks: make([]string, 3)},
		"nvcdi":                   {Libraries: make([]string, 20), Links: make([]string, 20), Binaries: make([]string, 4), Firmware: make([]string, 2), Devices: make([]string, 6), Hooks: make([]string, 4), Other: make([]string, 4)},
		"container of nvidia-ctk": {Libraries: make([]string, 20), Devices: make([]string, 6)},
		"container of nvcdi":      {Libraries: make([]string, 20), Devices: make([]string, 5)},

		"DRA driver's prestart": {},
	} {
		c, ok := r.Client(name)
		got := c.Found
		if !ok || len(got.Libraries) < len(want.Libraries) || len(got.Links) < len(want.Links) || len(got.Binaries) < len(want.Binaries) ||
			len(got.Firmware) < len(want.Firmware) || len(got.Devices) < len(want.Devices) || len(got.Hooks) < len(want.Hooks) || len(got.Other) < len(want.Other) {
			t.Errorf("%s found too little: %+v", name, got)
		}
	}
	if t.Failed() {
		for _, c := range r.Clients {
			if c.Output != "" {
				t.Logf("%s:\n%s", c.Name, c.Output)
			}
		}
	}
}

func run(t *testing.T, dir string, o Options) inside.Report {
	t.Helper()
	r := require.Value(Run(t.Context(), dir, o))(t)
	t.Log(r)
	return r
}
