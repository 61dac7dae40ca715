package lab

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/lab/fakegpu"
)

func TestLab(t *testing.T) {
	Gate(t)
	config := Config{Kernel: Kernel(t, "debian12"), GPUs: []fakegpu.Model{fakegpu.T4}}
	if dir := os.Getenv("DRIVER_LAB_MODULES"); dir != "" {
		config.Disks = map[string]string{"/mods": TreeDisk(t, dir)}
	}
	g := Start(t, config)
	if got := g.Sh("echo hello; uname -r"); got != "hello\n"+config.Kernel.Release {
		t.Errorf("Sh: %q", got)
	}
	t.Log(g.Sh("cat /proc/self/mountinfo; free -m; cat /sys/bus/pci/devices/0000:00:05.0/vendor"))
	if dir := config.Disks["/mods"]; dir != "" {
		for _, m := range []string{"drm", "drm_kms_helper", "video", "ipmi_msghandler"} {
			g.Module(m)
		}
		for _, m := range []string{"nvidia", "nvidia-uvm", "nvidia-modeset"} {
			r := g.Run("insmod", "/mods/"+m+".ko")
			t.Log(r)
		}
		t.Log(g.Dmesg())
		if !slices.Contains(g.Driver(), "nvidia_uvm") {
			t.Errorf("modules: %s", strings.Join(g.Modules(), " "))
		}
		t.Log(g.Run("time", "sh", "-c", "rmmod nvidia_modeset; rmmod nvidia_uvm; rmmod nvidia"))
	}
	_ = time.Second
}
