package scenarios

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/lab"
	"github.com/driver-container/driver-container/ci/lab/fakegpu"
	"github.com/driver-container/driver-container/ci/logtest"
	"github.com/driver-container/driver-container/node/status"
)

// The PCI slots of the lab's GPUs.
const first, second, third, fourth, fifth = "0000:00:05.0", "0000:00:06.0", "0000:00:07.0", "0000:00:08.0", "0000:00:09.0"

// onBus removes all GPUs of a guest from the bus, except these.
func onBus(g *lab.Guest, keep ...string) {
	g.Sh("echo 1 > /sys/bus/pci/rescan")
	for _, slot := range []string{first, second, third, fourth, fifth} {
		if !strings.Contains(strings.Join(keep, " "), slot) {
			g.Sh("cd /sys/bus/pci/devices; [ ! -e " + slot + " ] || echo 1 > " + slot + "/remove")
		}
	}
}

// Two GPUs are served. GPUs that another driver has are named, with the commands that return them. Without
// any GPU the message says so at once. If preflight is told to ignore a problem, the kernel reports the same
// one, and no state is left on the node.
func Test08GPUsTwoTakenNone(t *testing.T) {
	g := stage{gpus: []fakegpu.Model{fakegpu.T4, fakegpu.L4}, products: map[string]product{"535": d535}, modules: []modules{{d535, closed}}}.start(t)
	p := ready(t, g, light("535"))
	serving(t, g, d535.driver)
	if st := statusOf(t, g); len(st.GPUs) != 2 || st.GPUs[0].Address != first || st.GPUs[1].Address != second {
		t.Errorf("GPUs in the status: %+v", st.GPUs)
	}
	if !g.Exists("/run/nvidia/driver/dev/nvidia0") || !g.Exists("/run/nvidia/driver/dev/nvidia1") {
		t.Error("the root does not show both GPUs' device files")
	}
	stops(t, p, 0)

	t.Run("require", func(t *testing.T) { requireGPU(t, g) })
	g.Module("pci_stub")
	bind := func(slot string) {
		g.Sh("cd /sys/bus/pci; echo pci-stub > devices/" + slot + "/driver_override; echo " + slot + " > drivers_probe; [ -e drivers/pci-stub/" + slot + " ]")
	}
	bind(second)
	t.Run("one is bound to pci-stub", func(t *testing.T) {
		p := ready(t, g, light("535"))
		contains(t, p.Output(), `GPU 0000:00:06.0 [^\n]* is lent to pci-stub`)
		gpus(t, g, p, status.GPUOurs, status.GPULent)
		stops(t, p, 0)
	})
	bind(first)
	t.Run("both are bound to pci-stub", func(t *testing.T) {
		fails(t, g, light("535"), 11, 20*time.Second, `gpu-driver: .*`+first+`.* is lent to pci-stub.*`+second, `echo `+first+` > /sys/bus/pci/drivers/pci-stub/unbind`)
		fails(t, g, light("535", "DRIVER_SKIP_PREFLIGHT=gpu-driver"), 13, 30*time.Second, `another driver has the GPU \(.*probe routine was not called for 2 device`)
	})
	onBus(g)
	t.Run("none", func(t *testing.T) {
		fails(t, g, light("535"), 11, 20*time.Second, `there is no display device of NVIDIA.*on the PCI bus`, `feature.node.kubernetes.io/pci-10de.present=true`)
		fails(t, g, light("535", "DRIVER_SKIP_PREFLIGHT=gpu"), 13, 30*time.Second, `No NVIDIA GPU found`)
	})
	t.Run("none, until one comes", func(t *testing.T) { waitsForGPU(t, g) })
	onBus(g, first)
	servesAgain(t, g, light("535"), d535.driver)
}

// With --preflight-on-failure=wait a container without a GPU stays and says why. It ends at once at SIGTERM,
// and goes on by itself when a GPU comes.
func waitsForGPU(t *testing.T, g *lab.Guest) {
	waits := func() *lab.Process {
		p := g.Start(light("535", "DRIVER_PREFLIGHT_ON_FAILURE=wait"))
		p.WaitLine(logtest.Unfit, 20*time.Second)
		if st := statusOf(t, g); st.State != status.Waiting || st.WaitsFor != status.ForPreflight || !strings.Contains(st.Reason, "no display device of NVIDIA") {
			t.Errorf("status %+v", st)
		}
		return p
	}
	before := look(g).withoutStatus()
	p := waits()
	if r := p.Exec("nvidia-driver", "probe", "ready"); r.Code != 15 || !strings.Contains(r.Output, "no display device of NVIDIA") {
		t.Errorf("probe ready: %v; want 15 and the reason", r)
	}
	begin := time.Now()
	stops(t, p, 0)
	if took := time.Since(begin); took > g.Limit(5*time.Second) {
		t.Errorf("the wait ended %s after SIGTERM", took)
	}
	if after := look(g).withoutStatus(); after != before {
		t.Errorf("the node was touched: %+v, before %+v", after, before)
	}
	p = waits()
	onBus(g, first)
	p.WaitLine(logtest.Ready, time.Minute)
	serving(t, g, d535.driver)
	stops(t, p, 0)
}

// With --gpu-init=require, the default, a GPU that does not come up keeps the node not ready, with the
// kernel's reason, and leaves the driver loaded; the instance can be stopped like any other.
func requireGPU(t *testing.T, g *lab.Guest) {
	before := look(g)
	p := g.Start(light("535", "DRIVER_GPU_INIT=require"))
	p.WaitLine(logtest.NotReady+`GPU 0000:00:05\.0 \(10de:1eb8\) does not initialise: .*NVRM: GPU 0000:00:05\.0: RmInitAdapter failed.*; GPU 0000:00:06\.0 \(10de:27b8\) does not initialise: .*NVRM: GPU 0000:00:06\.0`, time.Minute)
	if st := statusOf(t, g); st.State != status.Degraded || st.Ready || !strings.Contains(st.Reason, "NVRM:") || len(st.GPUs) != 2 || st.GPUs[0].Works {
		t.Errorf("status %+v", st)
	}
	r := p.Exec("nvidia-driver", "probe", "startup")
	if r.Code != 15 || !strings.Contains(r.Output, "does not initialise") {
		t.Errorf("probe startup: %v; want 15 and the reason", r)
	}
	if r := p.Exec("nvidia-driver", "probe", "live"); r.Code != 0 {
		t.Errorf("probe live: %v", r)
	}
	if g.Exists("/run/nvidia/validations/.driver-ctr-ready") || driverLoaded(g) != d535.driver || roots(g) != 1 || !p.Running() {
		t.Error("want the driver loaded, its root served, no marker of readiness, and the process running")
	}
	begin := time.Now()
	stops(t, p, 0)
	t.Logf("stopped in %s", time.Since(begin).Round(10*time.Millisecond))
	if after := look(g); after != before {
		t.Errorf("the node is not as it was\nbefore %+v\nafter  %+v", before, after)
	}
}

// A GPU that NVIDIA's list assigns to another driver branch is refused before anything is changed. A GPU that
// is not on the list is not refused, because the list can be incomplete, as that of 535, which lacks the T4:
// the kernel decides.
func Test08GPUsOldNewLostUnlisted(t *testing.T) {
	g := stage{gpus: []fakegpu.Model{fakegpu.K80, fakegpu.TooNew, fakegpu.Lost, fakegpu.T4, fakegpu.H100},
		products: map[string]product{"535": d535}, modules: []modules{{d535, closed}}}.start(t)
	onBus(g, first)
	t.Run("K80", func(t *testing.T) {
		fails(t, g, light("535"), 11, 20*time.Second, `driver 535\.261\.03 no longer supports .*K80.*: the last branch that does is 470`, `Use an image with a driver of branch 470`)
		fails(t, g, light("535", "DRIVER_SKIP_PREFLIGHT=gpu-supported"), 13, 30*time.Second, `no longer supports the GPU \(.*470\.xx Legacy drivers`)
	})
	onBus(g, second)
	t.Run("too new", func(t *testing.T) {
		fails(t, g, light("535"), 13, 30*time.Second, `10de:2901.*not supported by the NVIDIA 535\.261\.03 driver release`, `newer driver`)
	})
	onBus(g, third)
	t.Run("lost", func(t *testing.T) {
		fails(t, g, light("535"), 13, 30*time.Second, `has fallen off the bus and is not responding to commands`, `power`)
	})
	onBus(g, first, fourth)
	t.Run("K80 beside one that is not listed", func(t *testing.T) {
		p := ready(t, g, light("535"))
		contains(t, p.Output(), `warning: preflight: gpu-supported: driver 535\.261\.03 no longer supports .*K80`)
		p.Signal(syscall.SIGTERM)
		ends(t, p, 0, time.Minute)
	})
	onBus(g, first, fifth)
	t.Run("K80 beside H100", func(t *testing.T) { oldBesideNew(t, g) })
	onBus(g, fourth)
	t.Run("not listed", func(t *testing.T) { servesAgain(t, g, light("535"), d535.driver) })
}

// A node with a GPU that the driver has left behind and one that it drives: preflight names the old GPU only,
// with the branch that it needs, and the driver serves the new one. The status does not blame the old GPU for
// what the kernel says of the other.
func oldBesideNew(t *testing.T, g *lab.Guest) {
	predicts(t, g, light("535"), 0,
		`gpu-supported +warn +driver 535\.261\.03 no longer supports `+first+` \(Tesla K80, 10de:102d\), which will not come up: the last branch that does is 470`,
		`Use an image with a driver of branch 470 if those GPUs are needed. If not, set --gpu-init=warn`)
	p := ready(t, g, light("535"))
	serving(t, g, d535.driver)
	if st := statusOf(t, g); !st.Ready || len(st.GPUs) != 2 || st.GPUs[0].Driver != "" || st.GPUs[1].Driver != "nvidia" {
		t.Errorf("status %+v", st)
	} else if strings.Contains(st.GPUs[0].Reason, "00:09") || !strings.Contains(st.GPUs[1].Reason, "00:09") {
		t.Errorf("reasons %q and %q", st.GPUs[0].Reason, st.GPUs[1].Reason)
	}
	stops(t, p, 0)
	p.Kill()
}

// The open modules do not support a P100: preflight says so before they are loaded, and the kernel does if
// preflight is told to ignore it.
func Test08GPUsOpenFlavour(t *testing.T) {
	g := stage{kernel: "debian11", gpus: []fakegpu.Model{fakegpu.P100}, products: map[string]product{"535": d535}, modules: []modules{{d535, open}}}.start(t)
	asked := "KERNEL_MODULE_TYPE=open"
	fails(t, g, light("535", asked), 11, 20*time.Second, `gpu-flavour: .*open modules do not drive .*P100`, `KERNEL_MODULE_TYPE|--kernel-module-type`)
	fails(t, g, light("535", asked, "DRIVER_SKIP_PREFLIGHT=gpu-flavour"), 13, 30*time.Second, `not supported by open nvidia\.ko`, `proprietary flavour`)
}
