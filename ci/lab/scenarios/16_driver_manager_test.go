package scenarios

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/conformance"
	"github.com/driver-container/driver-container/ci/lab"
	"github.com/driver-container/driver-container/ci/logtest"
	"github.com/driver-container/driver-container/node/status"
)

// driverManager runs the init container of the operator's pod with a verb and the digest of that pod, and
// requires an exit code.
func driverManager(t *testing.T, g *lab.Guest, verb, digest string, code int) string {
	t.Helper()
	p := g.Start(lab.Container{
		Image: "535", Name: "k8s-driver-manager", Command: []string{"driver-manager"}, Args: []string{verb},
		Env: []string{"NODE_NAME=gpu-node-1", "NVIDIA_VISIBLE_DEVICES=void", "ENABLE_GPU_POD_EVICTION=true", "ENABLE_AUTO_DRAIN=false",
			"OPERATOR_NAMESPACE=gpu-operator", "DRIVER_CONFIG_DIGEST=" + digest},
		Mounts: []lab.Mount{
			{Host: "/manager/drivermanager", Guest: "/usr/local/bin/driver-manager", ReadOnly: true, File: true},
			{Host: "/run/nvidia", Guest: "/run/nvidia", Shared: true},
			{Host: "/", Guest: "/host", ReadOnly: true},
			{Host: "/sys", Guest: "/sys"},
		},
	})
	defer p.Kill()
	return ends(t, p, code, time.Minute)
}

// The operator's driver manager, the init container of the next pod, removes NVIDIA's pid file and unmounts
// the driver root, also while a driver runs. The driver then reports this, is not ready, and does not mount
// the root again by itself. The next pod, with the same digest, adopts the modules, also while they are in
// use, and serves the root again.
func Test16DriverManager(t *testing.T) {
	g := operatorStage(t, nil)
	before := look(g)
	p := ready(t, g, operated(g, digest))

	g.Remove(pidFile)
	p.WaitLine(logtest.LockRecreated+`.*nvidia-driver\.pid`, 30*time.Second)
	g.Eventually(10*time.Second, "NVIDIA's pid file is back", func() bool { return g.Exists(pidFile) })
	if st := statusOf(t, g); !st.Ready {
		t.Errorf("not ready for want of a pid file: %+v", st)
	}

	holder := g.Hold("/run/nvidia/driver/dev/nvidiactl")
	contains(t, driverManager(t, g, "uninstall_driver", digest, 0), `digest `+digest+` is equal`)
	p.WaitLine(logtest.NotReady+`the driver root /run/nvidia/driver was unmounted by somebody else; delete this pod`, 30*time.Second)
	wantDown(t, g, `unmounted by somebody else`)
	if r := p.Exec("nvidia-driver", "probe", "ready"); r.Code != 15 {
		t.Errorf("the readiness probe of a driver without root: %s", r)
	}
	heartbeat := func() int {
		at, _ := strconv.Atoi(strings.TrimSpace(p.Exec("stat", "-c", "%Y", status.InstanceFile).Output))
		return at
	}
	first := heartbeat()
	g.Eventually(time.Minute, "two more looks of the watch", func() bool { return heartbeat() >= first+10 })
	assert.Equalf(t, 0, roots(g), "the root was mounted behind the manager's back")
	detaches(t, g, p, holder)

	driverManager(t, g, "uninstall_driver", digest, 0) // digest equal: no eviction, no unload
	p = ready(t, g, operated(g, digest))
	contains(t, p.Output(), logtest.Adopting)
	if n := roots(g); n != 1 || g.Read(daemonStatus) != "Ready\n" {
		t.Errorf("adopted: %d roots, the operator's marker says %q", n, g.Read(daemonStatus))
	}
	firmware(t, g)
	holder.Kill()
	stops(t, p, 0)
	if after := look(g).withoutLock(); after != before {
		t.Errorf("the node is not as it was\nbefore %+v\nafter  %+v", before, after)
	}
}

// detaches stops a driver that a process holds, as the kubelet does when the operator deletes the pod: it
// ends by itself within the 30 seconds that the operator's pods have, and leaves the driver in place.
func detaches(t *testing.T, g *lab.Guest, p, holder *lab.Process) {
	t.Helper()
	if r := p.Exec("/bin/sh", "-c", conformance.PreStop); r.Code != 0 {
		t.Errorf("preStop: %s", r)
	}
	begin := time.Now()
	out := stops(t, p, 0)
	contains(t, out, fmt.Sprintf(`pid %d \(`, holder.PID), `left in place`)
	if took := time.Since(begin); took > g.Limit(30*time.Second) {
		t.Errorf("the stop took %s, more than the operator's terminationGracePeriodSeconds of 30", took)
	}
	p.Kill()
	if v := driverLoaded(g); v != d535.driver || strings.TrimSpace(g.Read(digestFile)) != digest {
		t.Fatalf("after a stop in use: driver %q, digest %q", v, g.Read(digestFile))
	}
}

// The configuration changes, so that the digest of the next pod is another: the driver manager unloads the
// driver itself. From a driver in use it unloads what it can, nvidia_modeset and nvidia_uvm, and fails each
// time. If the change is then taken back, the next pod finds half of its driver: it loads what lacks, and
// serves beside the process that holds the rest.
func Test16Digest(t *testing.T) {
	const changed = "2557654322"
	g := operatorStage(t, nil)
	before := look(g)
	p := ready(t, g, operated(g, digest))
	holder := g.Hold("/run/nvidia/driver/dev/nvidiactl")
	detaches(t, g, p, holder)
	for range 2 {
		contains(t, driverManager(t, g, "uninstall_driver", changed, 1), `driver is in use`)
		if got := g.Driver(); !slices.Equal(got, []string{"nvidia"}) {
			t.Fatalf("after the driver manager failed, %q are loaded", got)
		}
	}
	driverManager(t, g, "uninstall_driver", digest, 0)
	p = ready(t, g, operated(g, digest))
	if got := g.Driver(); !slices.Equal(got, []string{"nvidia", "nvidia_modeset", "nvidia_uvm"}) || !holder.Running() {
		t.Errorf("%q are loaded; the process that holds the driver runs: %t", got, holder.Running())
	}

	detaches(t, g, p, holder)
	holder.Kill()
	contains(t, driverManager(t, g, "uninstall_driver", changed, 0), `the driver is unloaded`)
	if got, n := g.Driver(), roots(g); len(got) != 0 || n != 0 {
		t.Errorf("after the driver manager: %q are loaded, %d roots are mounted", got, n)
	}
	p = ready(t, g, operated(g, changed))

	p.Kill() // idle, with nobody to stop it: the driver manager finds everything in place
	contains(t, driverManager(t, g, "uninstall_driver", changed, 0), `is equal`)
	p = ready(t, g, operated(g, changed))
	contains(t, p.Output(), logtest.Adopting)
	p.Kill()
	contains(t, driverManager(t, g, "uninstall_driver", digest, 0), `the driver is unloaded`)
	p = ready(t, g, operated(g, digest))
	assert.Equalf(t, digest, strings.TrimSpace(g.Read(digestFile)), "the digest on the node is")
	stops(t, p, 0)
	if after := look(g).withoutLock(); after != before {
		t.Errorf("the node is not as it was\nbefore %+v\nafter  %+v", before, after)
	}
}
