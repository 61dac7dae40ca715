package scenarios

import (
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/lab"
	"github.com/driver-container/driver-container/ci/lab/fakegpu"
	"github.com/driver-container/driver-container/ci/logtest"
	"github.com/driver-container/driver-container/node/status"
)

// gpuChanges is how long the container may take to see a change, on an idle machine.
const gpuChanges = 20 * time.Second

// lender moves GPUs of a guest between drivers, as docs/lent-gpus.md says.
type lender struct{ *lab.Guest }

// newLender loads vfio-pci, which takes a device only if there is an IOMMU: Debian's kernel is built without
// the mode that does without.
func newLender(g *lab.Guest) lender {
	g.Module("vfio_iommu_type1")
	g.Module("vfio_pci")
	return lender{g}
}

func (l lender) unbind(slot string) {
	l.Sh("[ ! -e /sys/bus/pci/devices/" + slot + "/driver ] || echo " + slot + " > /sys/bus/pci/devices/" + slot + "/driver/unbind")
}

func (l lender) lend(slot string) {
	l.unbind(slot)
	l.Sh("echo vfio-pci > /sys/bus/pci/devices/" + slot + "/driver_override; echo " + slot + " > /sys/bus/pci/drivers_probe; " + lentTo(slot, "vfio-pci"))
}

func (l lender) takeBack(slot string) {
	l.unbind(slot)
	l.Sh("echo > /sys/bus/pci/devices/" + slot + "/driver_override; echo " + slot + " > /sys/bus/pci/drivers/nvidia/bind; " + lentTo(slot, "nvidia"))
}

// lentTo is a command that fails unless a driver has the GPU.
func lentTo(slot, driver string) string {
	return `[ "$(basename "$(readlink /sys/bus/pci/devices/` + slot + `/driver)")" = ` + driver + " ]"
}

// gpus waits until the status has these states for the first and the second GPU, and requires that the driver
// is ready.
func gpus(t *testing.T, g *lab.Guest, p *lab.Process, states ...status.GPUState) {
	t.Helper()
	for end := time.Now().Add(g.Limit(gpuChanges)); ; time.Sleep(time.Second) {
		st := statusOf(t, g)
		var got []status.GPUState
		for _, gpu := range st.GPUs {
			got = append(got, gpu.State)
		}
		if slices.Equal(got, states) {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("GPUs in the status: %+v, want states %v", st.GPUs, states)
		}
	}
	if r := p.Exec("nvidia-driver", "probe", "ready"); r.Code != 0 {
		t.Errorf("not ready with GPUs %v: %v", states, r)
	}
}

// A GPU is bound to vfio-pci and back while a process holds the driver, and the driver stays ready. One that
// was lent at the start gets its device file when it comes back. With all GPUs lent the driver stays, also
// for the next container, and a GPU that leaves in the middle of a stop is in nobody's way.
func Test25Lent(t *testing.T) {
	g := stage{gpus: []fakegpu.Model{fakegpu.T4, fakegpu.L4}, products: map[string]product{"535": d535}, modules: []modules{{d535, closed}},
		edit: func(c *lab.Config) { c.IOMMU = true }}.start(t)
	l := newLender(g)
	before := look(g)
	l.lend(second)
	pod := light("535", "DRIVER_GRACE=100s")
	pod.HostDev = true
	p := ready(t, g, pod)
	gpus(t, g, p, status.GPUOurs, status.GPULent)
	if !g.Exists("/dev/nvidia0") || g.Exists("/dev/nvidia1") {
		t.Error("want the device file of the first GPU only")
	}
	contains(t, p.Exec("nvidia-driver", "preflight").Output, `gpu-driver +ok +`+second+`[^\n]* is lent to vfio-pci; the driver takes the other GPUs`)
	host, inPod := hold(t, g)

	l.takeBack(second)
	p.WaitLine("GPU "+second+` \(10de:27b8\) is the driver's again`, gpuChanges)
	gpus(t, g, p, status.GPUOurs, status.GPUOurs)
	if !g.Exists("/dev/nvidia1") {
		t.Error("the GPU came back and has no device file")
	}
	l.unbind(second)
	gpus(t, g, p, status.GPUOurs, status.GPUUnbound)
	l.lend(second)
	gpus(t, g, p, status.GPUOurs, status.GPULent)
	contains(t, p.Exec("nvidia-driver", "status").Output, `(?m)^GPU +`+second+` 10de:27b8 lent to vfio-pci$`)

	l.lend(first)
	gpus(t, g, p, status.GPULent, status.GPULent)
	p.Signal(syscall.SIGKILL)
	p.Wait(time.Minute)
	p = ready(t, g, pod)
	contains(t, p.Output(), logtest.Adopting)
	gpus(t, g, p, status.GPULent, status.GPULent)
	l.takeBack(first)
	gpus(t, g, p, status.GPUOurs, status.GPULent)

	p.Signal(syscall.SIGTERM)
	p.WaitLine(`driver is in use by `, time.Minute)
	if !host.Running() || !inPod.Running() {
		t.Error("a holder has ended")
	}
	l.lend(first)
	host.Signal(syscall.SIGTERM)
	inPod.Signal(syscall.SIGTERM)
	ends(t, p, 0, 2*time.Minute)
	g.Sh(lentTo(first, "vfio-pci") + " && " + lentTo(second, "vfio-pci"))
	if after := look(g).withoutLock(); after != before.withoutLock() {
		t.Errorf("the node is not as it was\nbefore %+v\nafter  %+v", before, after)
	}
	fails(t, g, pod, 11, 20*time.Second, `gpu-driver: .*`+first+`.* is lent to vfio-pci.*`+second+`.* is lent to vfio-pci`)
}

// A GPU falls off the bus: its configuration space reads as all ones, or the device is gone. The status, the
// log and the reason name it, the other GPU is served, and the driver is ready again when it is back.
func Test25Lost(t *testing.T) {
	g := stage{gpus: []fakegpu.Model{fakegpu.T4, fakegpu.L4}, products: map[string]product{"535": d535}, modules: []modules{{d535, closed}}}.start(t)
	const lost, back = "GPU " + second + ` \(10de:27b8\) fell off the bus`, "GPU " + second + ` \(10de:27b8\) is the driver's again`
	before := look(g)
	p := ready(t, g, light("535"))
	g.SetLost(1, true)
	p.WaitLine(lost+`: its configuration space reads as all ones; the other GPUs go on`, gpuChanges)
	gpus(t, g, p, status.GPUOurs, status.GPULost) // with --gpu-init=warn it is ready
	contains(t, p.Exec("nvidia-driver", "status").Output, `(?m)^GPU +`+second+` 10de:27b8 lost: its configuration space reads as all ones$`)
	contains(t, p.Exec("nvidia-driver", "preflight").Output, `gpu-health +warn +`+second+`[^\n]* does not answer on the bus`)
	g.SetLost(1, false)
	p.WaitLine(back, gpuChanges)
	gpus(t, g, p, status.GPUOurs, status.GPUOurs)
	g.Sh("echo 1 > /sys/bus/pci/devices/" + second + "/remove")
	p.WaitLine(lost+`: it is not on the PCI bus any more`, gpuChanges)
	gpus(t, g, p, status.GPUOurs, status.GPULost)
	g.SetLost(1, true)
	stops(t, p, 0)
	g.SetLost(1, false)
	g.Sh("echo 1 > /sys/bus/pci/rescan")
	if after := look(g).withoutLock(); after != before.withoutLock() {
		t.Errorf("the node is not as it was\nbefore %+v\nafter  %+v", before, after)
	}

	p = g.Start(light("535", "DRIVER_GPU_INIT=require"))
	p.WaitLine(logtest.NotReady+`GPU `+first, time.Minute)
	g.SetLost(1, true)
	p.WaitLine(logtest.NotReady+`.*`+lost, gpuChanges)
	r := p.Exec("nvidia-driver", "probe", "ready")
	if r.Code != 15 || !strings.Contains(r.Output, "Drain the node") {
		t.Errorf("probe ready: %v; want 15, the GPU and what to do", r)
	}
	contains(t, p.Exec("nvidia-driver", "status").Output, `(?m)^next +drain the node`)
	stops(t, p, 0) // with a GPU that does not answer
	g.SetLost(1, false)
}

// The PCI slots of the lab's GPUs.
const first, second = "0000:00:05.0", "0000:00:06.0" // PCI slots of the GPUs
