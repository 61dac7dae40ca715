package scenarios

import (
	"testing"

	"github.com/driver-container/driver-container/node/logging/logtest"
)

// If the driver is stopped while no program uses it, the node is in the same state as before the start.
func Test02StopIdle(t *testing.T) {
	g := stage{products: map[string]product{"535": d535}, modules: []modules{{d535, closed}}}.start(t)
	before := look(g)
	p := ready(t, g, driver("535"))
	if v, n := driverLoaded(g), roots(g); v != d535.driver || n != 1 {
		t.Errorf("serving: driver %q is loaded, %d roots are mounted", v, n)
	}
	out := stops(t, p, 0)
	contains(t, out, logtest.Unloaded)
	if after := look(g).withoutLock(); after != before {
		t.Errorf("the node is not as it was\nbefore %+v\nafter  %+v", before, after)
	}
}
