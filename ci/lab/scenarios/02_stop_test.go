package scenarios

import (
	"testing"

	"github.com/driver-container/driver-container/ci/lab"
)

// Stopped when idle, the driver leaves the node as it found it.
func Test02StopIdle(t *testing.T) {
	g := stage{products: map[string]product{"535": d535}, modules: []modules{{d535, closed}}}.start(t)
	leavesNoTrace(t, g, driver("535"), d535)
}

// The oldest driver that Debian has, with the kernel of its time and the compiler of its own image.
func Test02StopIdleOldDriver(t *testing.T) {
	g := stage{kernel: "debian11", products: map[string]product{"418": d418}, modules: []modules{{d418, closed}}}.start(t)
	leavesNoTrace(t, g, light("418"), d418)
}

func leavesNoTrace(t *testing.T, g *lab.Guest, c lab.Container, p product) {
	t.Helper()
	before := look(g)
	serving := ready(t, g, c)
	if v, n := driverLoaded(g), roots(g); v != p.driver || n != 1 {
		t.Errorf("serving: driver %q is loaded, %d roots are mounted", v, n)
	}
	out := stops(t, serving, 0)
	contains(t, out, `driver unloaded, root unmounted`)
	if after := look(g).withoutLock(); after != before {
		t.Errorf("the node is not as it was\nbefore %+v\nafter  %+v", before, after)
	}
}
