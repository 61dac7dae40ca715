package scenarios

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/lab"
	"github.com/driver-container/driver-container/ci/logtest"
)

// kept are the files and folders that a driver leaves on a node when it is stopped, with what is below those
// that end in a slash. docs/operations.md lists them, except the folders above them.
var remaining = []string{
	"/run/nvidia", "/run/nvidia/driver", "/run/nvidia/validations", "/run/nvidia/driver-entrypoint.lock",
	"/var/lib/nvidia-driver", "/var/lib/nvidia-driver/modules/", "/var/lib/nvidia-driver/roots/",
}

// If the driver is stopped while no program uses it, the node is in the same state as before the start. No
// file, no folder and no device file is left, except the lock, two empty folders and the caches.
func Test02StopIdle(t *testing.T) {
	g := stage{products: map[string]product{"535": d535}, modules: []modules{{d535, closed}}}.start(t)
	pod := driver("535")
	kubelet := pod // makes what kubelet and containerd make for a pod with these volumes
	kubelet.Command = []string{"true"}
	p := g.Start(kubelet)
	ends(t, p, 0, time.Minute)
	p.Kill()
	before, files := look(g), everything(g)
	p = ready(t, g, pod)
	if v, n := driverLoaded(g), roots(g); v != d535.driver || n != 1 {
		t.Errorf("serving: driver %q is loaded, %d roots are mounted", v, n)
	}
	out := stops(t, p, 0)
	contains(t, out, logtest.Unloaded)
	p.Kill()
	if after := look(g).withoutLock(); after != before {
		t.Errorf("the node is not as it was\nbefore %+v\nafter  %+v", before, after)
	}
	now := everything(g)
	for path, line := range now {
		if files[path] != line && !isKept(path) {
			t.Errorf("left on the node: %s, before %q", line, files[path])
		}
	}
	for path, line := range files {
		if now[path] == "" {
			t.Errorf("gone from the node: %s", line)
		}
	}
}

// everything lists the files of the host, except its /usr: path to mode, size or target.
func everything(g *lab.Guest) map[string]string {
	all := map[string]string{}
	for _, dir := range []string{"/", "/run", "/var/lib", "/dev", "/tmp"} {
		for _, line := range g.List(dir) {
			if path := strings.Fields(line)[1]; !strings.HasPrefix(path, "/var/lib/kubelet/") { // folders of pods
				all[path] = line
			}
		}
	}
	return all
}

func isKept(path string) bool {
	return slices.ContainsFunc(remaining, func(k string) bool { return path == k || strings.HasSuffix(k, "/") && strings.HasPrefix(path+"/", k) })
}
