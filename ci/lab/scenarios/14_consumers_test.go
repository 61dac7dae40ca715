package scenarios

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/conformance"
	"github.com/driver-container/driver-container/ci/conformance/inside"
	"github.com/driver-container/driver-container/ci/lab"
)

// The driver root that was made on the node satisfies NVIDIA's own programs, with the real module loaded:
// nvidia-ctk in management mode, nvcdi with go-nvml's mock, and a container through nvidia-container-runtime
// and runc, which finds its libraries and whose nvidia-smi reaches the driver. So does nvidia-smi after a
// chroot to the driver root. The test covers each way in which a root is served: staged on the host's storage
// with device files of the host's /dev or of the container's, adopted from a dead container, and the
// container's own root when the host has no storage.
func Test14Consumers(t *testing.T) {
	lab.Gate(t)
	disk := lab.TreeDisk(t, conformance.Prepare(t))
	g := stage{products: map[string]product{"535": d535}, modules: []modules{{d535, closed}},
		edit: func(c *lab.Config) { c.Disks["/conformance"] = disk }}.start(t)
	before := look(g)

	hostDev := driver("535")
	hostDev.HostDev = true
	p := ready(t, g, hostDev)
	consume(t, g)
	stops(t, p, 0)
	p.Kill()

	p = ready(t, g, driver("535"))
	consume(t, g)
	p.Kill() // its root, device files and sockets no longer exist, but the served root does
	p = ready(t, g, driver("535"))
	contains(t, p.Output(), `adopting it`)
	consume(t, g)
	stops(t, p, 0)
	p.Kill()

	p = ready(t, g, unstaged(driver("535")))
	contains(t, p.Output(), `no storage of the host is mounted`)
	consume(t, g)
	stops(t, p, 0)
	if after := look(g).withoutLock(); after != before {
		t.Errorf("the node is not as it was\nbefore %+v\nafter  %+v", before, after)
	}
}

// unstaged is a pod that has only the cache of modules on the host's storage: it serves the container's own
// root.
func unstaged(pod lab.Container) lab.Container {
	return pod.Without("/var/lib/nvidia-driver").
		With(lab.Mount{Host: "/var/lib/nvidia-driver/modules", Guest: "/var/lib/nvidia-driver/modules"})
}

// consume lets the clients examine the root that is served now.
func consume(t *testing.T, g *lab.Guest) {
	t.Helper()
	const devRoot = "/run/nvidia/driver"
	r := g.RunFor(5*time.Minute, "/conformance/bin/driver-conformance", "--consumer", "/conformance/consumer", "--driver-version", d535.driver, "--dev", devRoot+"/dev")
	var report inside.Report
	at := max(0, strings.Index(r.Output, "{"))
	if err := json.NewDecoder(strings.NewReader(r.Output[at:])).Decode(&report); err != nil {
		t.Fatalf("%v\n%s", err, r)
	}
	t.Logf("%s after %s:\n%s", report.Root, r.Took.Round(time.Second), report)
	if r.Code != 0 || report.Loaded != d535.driver || report.DevRoot != devRoot || len(report.Lint) > 0 {
		t.Errorf("exit code %d, module %q, devices below %q, want 0, %q, %q, and no lint %q",
			r.Code, report.Loaded, report.DevRoot, d535.driver, devRoot, report.Lint)
	}
	for _, name := range []string{"validator's nvidia-smi", "validator's modprobe", "validator's links", "DRA driver's prestart", "administrator's nvidia-smi", "nvidia-ctk",
		"container of nvidia-ctk", "nvcdi", "container of nvcdi"} {
		c, found := report.Client(name)
		if !found || len(c.Problems) > 0 {
			t.Errorf("%s: did it run? %t; problems: %q\n%s", name, found, c.Problems, c.Output)
		}
	}
	ctk, _ := report.Client("nvidia-ctk")
	if !slices.Contains(ctk.Found.Libraries, "libcuda.so."+d535.driver) || len(ctk.Found.Libraries) < 20 || len(ctk.Found.Firmware) != 2 || len(ctk.Found.Devices) < 4 {
		t.Errorf("nvidia-ctk found %+v", ctk.Found)
	}
}
