package lab

import (
	"os"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/lab/fakegpu"
)

func TestTrial(t *testing.T) {
	Gate(t)
	img := ImageDisk(t, "/var/tmp/h6/dist", "")
	g := Start(t, Config{Kernel: Kernel(t, "debian12"), GPUs: []fakegpu.Model{fakegpu.T4}, Images: map[string]Image{"a": img}})
	cpu := func() string { return cpuOf(g.qemu.cmd.Process.Pid) }
	t.Log("boot", cpu())
	c := DriverPod("a")
	c.Command = []string{"bash", "-c", os.Getenv("TRIAL")}
	p := g.Start(c)
	code, out := p.Wait(8 * time.Minute)
	t.Log(code)
	t.Log(out)
	t.Log("run", cpu())
}

func cpuOf(pid int) string {
	b, _ := os.ReadFile("/proc/" + itoa(pid) + "/stat")
	f := splitStat(string(b))
	return "user ticks " + f[13] + " sys " + f[14]
}
