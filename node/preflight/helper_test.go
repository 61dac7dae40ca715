package preflight

import (
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/node/devices"
	"github.com/driver-container/driver-container/node/fabric"
)

// machine is a node as files: path below a temporary folder -> content. The prefix "-> " makes a symbolic
// link, "" an empty file, and a path that ends in "/" a folder.
type machine struct {
	t   *testing.T
	dir string
}

const release = "6.1.0-38-amd64"

// goodFiles is a node without faults, seen from a privileged container with hostPID.
func goodFiles() map[string]string {
	return map[string]string{
		"sys/module/module/parameters/sig_enforce":             "N\n",
		"sys/kernel/security/lockdown":                         "[none] integrity confidentiality\n",
		"proc/sys/kernel/tainted":                              "4097\n",
		"proc/sys/kernel/modules_disabled":                     "0\n",
		"proc/cmdline":                                         "BOOT_IMAGE=/vmlinuz root=/dev/vda1 ro quiet\n",
		"proc/self/status":                                     "Name:\tdriver\nCapInh:\t0000000000000000\nCapEff:\t000001ffffffffff\n",
		"proc/self/mountinfo":                                  goodMounts,
		"proc/self/ns/mnt":                                     "-> mnt:[4026532000]",
		"proc/1/ns/mnt":                                        "-> mnt:[4026531840]",
		"proc/self/ns/pid":                                     "-> pid:[4026531836]",
		"host/usr/lib/os-release":                              "PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nVERSION_ID=\"12\"\nID=debian\n",
		"host/etc/os-release":                                  "-> ../usr/lib/os-release",
		"host/lib":                                             "-> usr/lib",
		"host/usr/lib/modules/" + release + "/modules.dep":     "kernel/drivers/char/ipmi/ipmi_msghandler.ko:\nkernel/drivers/gpu/drm/drm.ko: kernel/x.ko\n",
		"host/usr/lib/modules/" + release + "/modules.builtin": "kernel/drivers/i2c/i2c-core.ko\n",
		"root/":  "",
		"state/": "",
	}
}

const goodMounts = `595 500 0:60 / / rw,relatime - overlay overlay rw,lowerdir=/a
596 595 0:61 / /proc rw,nosuid - proc proc rw
597 595 0:62 / /sys rw,nosuid - sysfs sysfs rw
598 595 0:24 /nvidia /run/nvidia rw,nosuid shared:13 - tmpfs tmpfs rw,size=100k
`

func newMachine(t *testing.T, files map[string]string) *machine {
	t.Helper()
	m := &machine{t, t.TempDir()}
	for name, body := range goodFiles() {
		if with, changed := files[name]; changed {
			body = with
		}
		m.write(name, body)
	}
	for name, body := range files {
		if _, done := goodFiles()[name]; !done {
			m.write(name, body)
		}
	}
	return m
}

func (m *machine) write(name, body string) {
	m.t.Helper()
	if body != "gone" {
		testfile.Write(m.t, m.dir+"/"+name, body)
	}
}

// rename makes the text of a run the same in every folder.
func (m *machine) rename(text string) string { return strings.ReplaceAll(text, m.dir, "") }

func gpu(device uint16, driver string) devices.GPU {
	return devices.GPU{Function: devices.Function{Address: "0000:05:00.0", Vendor: 0x10de, Device: device, Class: 0x030200, Driver: driver}}
}

const (
	k80, m60, p100, v100, t4, a100, h100, gh200, tooNew = 0x102d, 0x13f2, 0x15f8, 0x1db1, 0x1eb8, 0x20b0, 0x2330, 0x2342, 0x2901
)

// listText is an excerpt of the list of 535, which does not have the T4. It has the RTX 5000, of the
// same chip.
const listText = `{"chips": [
 {"devid": "0x102D", "name": "Tesla K80", "legacybranch": "470.xx", "features": ["hdmi4k"]},
 {"devid": "0x15F8", "name": "Tesla P100-PCIE-16GB", "features": []},
 {"devid": "0x1DB1", "subdevid": "0x1307", "subvendorid": "0x10DE", "name": "Tesla V100-SXM2-16GB-LS", "features": []},
 {"devid": "0x1DB1", "name": "Tesla V100-SXM2-16GB", "features": []},
 {"devid": "0x1EB0", "name": "Quadro RTX 5000", "features": ["runtimepm", "kernelopen"]},
 {"devid": "0x20B0", "name": "NVIDIA A100-SXM4-40GB", "features": ["runtimepm", "kernelopen"]},
 {"devid": "0x2330", "subdevid": "0x16C0", "subvendorid": "0x10DE", "name": "NVIDIA H100 80GB HBM3", "features": ["kernelopen"]},
 {"devid": "0x2342", "subdevid": "0x16EB", "subvendorid": "0x10DE", "name": "NVIDIA GH200 120GB", "features": ["kernelopen"]},
 {"devid": "*", "name": "strange"}
]}`

func list(t *testing.T, text string) Supported {
	t.Helper()
	return require.Value(ParseSupported([]byte(text)))(t)
}

func image() driverinfo.Description {
	return driverinfo.Description{
		Schema: 1, Driver: "535.261.03", Branch: "R535", OS: "debian12", Arch: "amd64", Profile: "full", Toolchain: true,
		Flavours: []string{driverinfo.Proprietary, driverinfo.Open}, Kernel: driverinfo.KernelRule{Min: "3.10", Max: "6.16", Reason: "Gentoo"},
	}
}

// input returns the facts about that node.
func (m *machine) input() Input {
	return Input{
		Sys: m.dir + "/sys", Proc: m.dir + "/proc", Root: m.dir + "/root", Host: m.dir + "/host", RunDir: "/run/nvidia",
		Info: image(), Release: release, GPUs: []devices.GPU{gpu(a100, "")}, Flavour: driverinfo.Proprietary,
		Modules:    []kmod.Module{{Name: "drm", State: "live"}},
		Supported:  list(m.t, listText),
		CanCompile: true, Headers: "image: /usr/src/linux-headers-" + release, Compiler: "gcc-12 12.2.0", WantedGCC: "gcc-12 12.2.0",
		StateDir: m.dir + "/state/nvidia-driver",
		Free:     func(string) (Space, error) { return Space{Bytes: 40 << 30, Inodes: 1 << 20}, nil },
		VGPU:     func() (string, string, bool) { return "no GPU is a vGPU", "", false },
		Fabric:   func(fabric.Kernel) (string, string, bool) { return "no NVLink switches", "", false },
	}
}
