package scenarios

import (
	"strings"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/lab"
	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/images/rehearse/guest"
	"github.com/driver-container/driver-container/node/status"
)

const (
	modulesDir = "/var/lib/nvidia-driver/modules"
	statusFile = "./driver-status.json"
)

// light returns a driver's pod that has only the module cache on the host's storage: it serves the image's
// own root, which saves the minute of the copy.
func light(image string, env ...string) lab.Container {
	return driver(image, env...).Without("/var/lib/nvidia-driver").With(guest.Mount{Host: modulesDir, Guest: modulesDir})
}

// withHeaders mounts the host's kernel headers at their usual paths. Without that they are copied from
// process 1's root, ten thousand files, which takes a minute here.
func withHeaders(g *lab.Guest, c lab.Container) lab.Container {
	for dir := range strings.FieldsSeq(g.Sh("ls -d /usr/src/linux-headers-* /usr/lib/linux-kbuild-*")) {
		c = c.With(guest.Mount{Host: dir, Guest: dir, ReadOnly: true})
	}
	return c
}

// fails starts a container whose start must end by itself with this exit code, print text that matches, and
// leave the node as it was, except for the status file, which reports the failure. It returns the output.
func fails(t *testing.T, g *lab.Guest, c lab.Container, code int, limit time.Duration, expressions ...string) string {
	t.Helper()
	before := look(g).withoutStatus()
	begin := time.Now()
	p := g.Start(c)
	out := ends(t, p, code, limit)
	t.Logf("exit code %d after %s", code, time.Since(begin).Round(10*time.Millisecond))
	contains(t, out, expressions...)
	contains(t, p.Termination(), `.`)
	if st := statusOf(t, g); st.State != status.Failed || st.Ready || st.Reason == "" {
		t.Errorf("status is %s, ready %v, reason %q; want failed with a reason", st.State, st.Ready, st.Reason)
	}
	assert.Equalf(t, before, look(g).withoutStatus(), "the node")
	p.Kill()
	return out
}

// withoutStatus leaves out the lock's file and the status file of a start that failed.
func (s snapshot) withoutStatus() snapshot {
	s = s.withoutLock()
	s.run = strings.TrimSpace(strings.ReplaceAll(s.run, statusFile, ""))
	return s
}

// servesAgain is the second instance after a failure: it must start and stop as if there had been no failure.
func servesAgain(t *testing.T, g *lab.Guest, c lab.Container, version string) {
	t.Helper()
	p := ready(t, g, c)
	serving(t, g, version)
	stops(t, p, 0)
	if v, n := driverLoaded(g), roots(t, g); v != "" || n != 0 {
		t.Errorf("after the stop: driver %q is loaded, %d roots are mounted", v, n)
	}
	p.Kill()
}

// serving requires one driver, loaded and with one root, whose own programs reach the modules from the host (a
// fake GPU never initialises, so nvidia-smi ends with 6, "No devices were found"; with modules of another version
// it would be 18, and 9 without any).
func serving(t *testing.T, g *lab.Guest, version string) {
	t.Helper()
	if v, n := driverLoaded(g), roots(t, g); v != version || n != 1 {
		t.Errorf("driver %q is loaded, %d roots are mounted; want %s and one", v, n, version)
	}
	assert.Equalf(t, "nvidia nvidia_modeset nvidia_uvm", strings.Join(g.Driver(), " "), "modules")
	assert.Equalf(t, true, g.Exists("/run/nvidia/driver/usr/lib/x86_64-linux-gnu/libnvidia-ml.so."+version), "the root has libnvidia-ml.so.%s", version)
	if r := g.Run("chroot", "/run/nvidia/driver", "nvidia-smi"); r.Code != 6 {
		t.Errorf("nvidia-smi in the root: %v; want exit code 6", r)
	}
}
