package scenarios

import (
	"strings"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/lab"
	"github.com/driver-container/driver-container/ci/logtest"
)

// parameter is a module parameter that the kernel shows while the module is loaded.
type parameter struct{ file, want string }

const (
	nvidiaParams = "/proc/driver/nvidia/params"
	uvmParams    = "/sys/module/nvidia_uvm/parameters/"
)

func wantParameters(t *testing.T, g *lab.Guest, all ...parameter) {
	t.Helper()
	for _, p := range all {
		if text := g.Read(p.file); !strings.Contains("\n"+text, "\n"+p.want+"\n") {
			t.Errorf("%s has no line %q:\n%s", p.file, p.want, text)
		}
	}
}

// Parameters come from /drivers/<module>.conf, on several lines or several on a line, and from
// /etc/modprobe.d, which they override. The loaded modules have all of them. A name that no module has is
// refused before anything is changed, whether a driver is loaded or not. Modules that were loaded with other
// parameters are replaced and not adopted; the same parameters in another notation change nothing.
func Test12Parameters(t *testing.T) {
	g := stage{products: map[string]product{"535": d535}, modules: []modules{{d535, closed}}}.start(t)
	pod := driver("535").With(lab.Mount{Host: "/modprobe", Guest: "/etc/modprobe.d", ReadOnly: true})
	before := look(g)

	g.Write("/drivers/nvidia.conf", "NVreg_EnableMSI=1 NVreg_EnableMSl=0\n", 0)
	out := ends(t, g.Start(pod), 2, time.Minute)
	contains(t, out, `NVreg_EnableMSl`, `NVreg_EnableMSI\b.*\?|mean.*NVreg_EnableMSI\b`, `/drivers/nvidia\.conf`)
	if after := look(g).withoutLock(); after.modules != before.modules || after.mounts != "" || after.dev != before.dev {
		t.Errorf("a wrong parameter left something\nbefore %+v\nafter  %+v", before, after)
	}

	g.Write("/drivers/nvidia.conf", "# by the cluster\nNVreg_EnableMSI=0 NVreg_UsePageAttributeTable=1\n\nNVreg_DeviceFileMode=0640\n"+
		`NVreg_RegistryDwords="RMUseSwI2c=0x01;RMI2cSpeed=100"`+"\n", 0)
	g.Write("/drivers/nvidia-uvm.conf", "uvm_perf_prefetch_threshold=60\nuvm_global_oversubscription=0", 0)
	g.Write("/drivers/gridd.conf", "ServerAddress=10.0.0.1\n", 0) // not a module's
	g.Write("/modprobe/gpu.conf", "options nvidia NVreg_EnableMSI=1 NVreg_DynamicPowerManagement=0x02\n"+
		"options nvidia_uvm \\\n  uvm_perf_prefetch_min_faults=3\nblacklist nouveau\noptions other unknown=1\n", 0)
	first := ready(t, g, pod)
	parameters := []parameter{
		{nvidiaParams, "EnableMSI: 0"}, {nvidiaParams, "UsePageAttributeTable: 1"}, {nvidiaParams, "DeviceFileMode: 416"},
		{nvidiaParams, "DynamicPowerManagement: 2"}, {nvidiaParams, `RegistryDwords: "RMUseSwI2c=0x01;RMI2cSpeed=100"`},
		{uvmParams + "uvm_perf_prefetch_threshold", "60"}, {uvmParams + "uvm_global_oversubscription", "0"},
		{uvmParams + "uvm_perf_prefetch_min_faults", "3"},
	}
	wantParameters(t, g, parameters...)
	if mode := g.Sh("stat -c %a /run/nvidia/driver/dev/nvidiactl /run/nvidia/driver/dev/nvidia0"); mode != "640\n640" {
		t.Errorf("DeviceFileMode is 0640, the device files have %q", mode)
	}
	first.Kill()

	// While the driver of a dead instance is loaded: a typing mistake must not change it.
	g.Write("/drivers/nvidia-uvm.conf", "uvm_global_oversubscribtion=0", 0)
	contains(t, ends(t, g.Start(pod), 2, time.Minute), `uvm_global_oversubscribtion`, `uvm_global_oversubscription\b`, `/drivers/nvidia-uvm\.conf`)
	if v, n := driverLoaded(g), roots(g); v != d535.driver || n != 1 {
		t.Errorf("a wrong parameter took the loaded driver away: driver %q, %d roots", v, n)
	}

	g.Write("/drivers/nvidia-uvm.conf", "  uvm_perf_prefetch_threshold=60\t uvm_global_oversubscription=0 \r\n# the same\n", 0)
	second := ready(t, g, pod)
	contains(t, second.Output(), logtest.Adopting)
	second.Kill()

	g.Write("/drivers/nvidia.conf", "NVreg_EnableMSI=1\n", 0)
	g.Write("/drivers/nvidia-uvm.conf", "uvm_perf_prefetch_threshold=70", 0)
	third := ready(t, g, pod)
	contains(t, third.Output(), `has to be replaced: nvidia was loaded with parameters`)
	wantParameters(t, g, parameter{nvidiaParams, "EnableMSI: 1"}, parameter{nvidiaParams, "DeviceFileMode: 438"},
		parameter{nvidiaParams, `RegistryDwords: ""`}, parameter{nvidiaParams, "DynamicPowerManagement: 2"},
		parameter{uvmParams + "uvm_perf_prefetch_threshold", "70"}, parameter{uvmParams + "uvm_global_oversubscription", "1"})
	assert.Equalf(t, "666", g.Sh("stat -c %a /run/nvidia/driver/dev/nvidiactl"), "DeviceFileMode is the default again, the device files have")
	assert.Equalf(t, 1, roots(g), "roots are mounted")
	stops(t, third, 0)
}
