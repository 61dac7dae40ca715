package preflight

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/goldentest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/node/devices"
	"github.com/driver-container/driver-container/node/fabric"
)

func find(t *testing.T, checks []Check, name string) Check {
	t.Helper()
	for _, c := range checks {
		if c.Name == name {
			return c
		}
	}
	t.Fatalf("no check %s", name)
	return Check{}
}

func at(address string, g devices.GPU) devices.GPU {
	g.Address = address
	return g
}

// Advisories of images, and a clock.
var (
	ends   = []driverinfo.Advisory{{ID: "e", Kind: driverinfo.EndOfLife, Until: "2026-06", Source: "NVIDIA"}}
	faulty = []driverinfo.Advisory{{ID: "f", Kind: driverinfo.KnownBad, Affects: "nodes with MIG", Reason: "pods stay Pending", Fixed: "580.1", Source: "issue 1"}}
)

func on(day string) func() time.Time {
	return func() time.Time {
		at, _ := time.Parse(time.DateOnly, day)
		return at
	}
}

// cases: a node, its fault, and the result of the check of that name. All the rest is as on a good node.
var cases = []struct {
	name   string
	check  string
	files  map[string]string
	input  func(*Input)
	status Status
	find   string // text in the finding
	fix    string // text in the fix
}{
	{"no release", "kernel", nil, func(i *Input) { i.Release = "" }, Blocked, "not known", "uname -r"},
	{"oops", "kernel", map[string]string{"proc/sys/kernel/tainted": "4225\n"}, nil, Warning, "Oops", "Reboot"},
	{"real-time", "kernel", map[string]string{"sys/kernel/realtime": "1\n"}, nil, Warning, "real-time", "PREEMPT_RT"},
	{"real-time, by its name", "kernel", nil, func(i *Input) { i.Release = "6.1.0-38-rt-amd64" }, Warning, "6.1.0-38-rt-amd64 is a real-time kernel", "PREEMPT_RT"},

	{"other system", "system", map[string]string{"host/usr/lib/os-release": "ID=ubuntu\nVERSION_ID='22.04'\n"}, nil, Warning, "the host runs ubuntu22.04, the image is made for debian12", "ubuntu22.04"},
	{"minor version", "system", map[string]string{"host/usr/lib/os-release": "ID=rocky\nVERSION_ID='9.4'\n"}, func(i *Input) { i.Info.OS = "rocky9" }, OK, "rocky9", ""},
	{"other major version", "system", map[string]string{"host/usr/lib/os-release": "ID=rocky\nVERSION_ID='8.10'\n"}, func(i *Input) { i.Info.OS = "rocky9" }, Warning, "the host runs rocky8.10, the image is made for rocky9", "made for rocky8,"},
	{"Flatcar", "system", map[string]string{"host/usr/lib/os-release": "ID=flatcar\nVERSION_ID='4081.2.0'\n"}, func(i *Input) { i.Info.OS = "flatcar" }, OK, "flatcar", ""},
	{"no VERSION_ID", "system", map[string]string{"host/usr/lib/os-release": "ID=gardenlinux\nGARDENLINUX_VERSION=1877.14\n"}, func(i *Input) { i.Info.OS = "gardenlinux1877" }, OK, "gardenlinux1877", ""},
	{"no os-release", "system", map[string]string{"host/etc/os-release": "gone"}, nil, Skipped, "no /etc/os-release", ""},
	{"host out of sight", "system", nil, func(i *Input) { i.Host = i.Root }, Skipped, "is our own root", ""},
	{"no host", "system", nil, func(i *Input) { i.Host = "/nowhere" }, Skipped, "no such file", ""},

	{"unprivileged", "privileges", map[string]string{"proc/self/status": "CapEff:\t00000000a80425fb\n"}, nil, Blocked, "lacks CAP_SYS_ADMIN, CAP_SYS_MODULE", "privileged: true"},
	{"sys read-only", "privileges", map[string]string{"proc/self/mountinfo": strings.Replace(goodMounts, "/sys rw", "/sys ro", 1)}, nil, Blocked, "/sys is mounted read-only", "privileged"},
	{"sys of a pod's sandbox", "privileges", map[string]string{"proc/self/mountinfo": strings.Replace(goodMounts, "sysfs sysfs rw", "sysfs sysfs ro", 1)}, nil, OK, "privileged", ""},
	{"no status", "privileges", map[string]string{"proc/self/status": "gone"}, nil, Skipped, "not known", ""},

	{"no hostPID", "host-pid", ownPIDs, func(i *Input) { i.Host = i.Root }, Warning, "out of sight", "hostPID: true"},
	{"bare machine", "host-pid", nil, func(i *Input) { i.Host = i.Root }, OK, "not in a container", ""},

	{"not shared", "run-shared", map[string]string{"proc/self/mountinfo": strings.Replace(goodMounts, " shared:13", "", 1)}, nil, Blocked, "seen by nobody else", "Bidirectional"},
	{"slave", "run-shared", map[string]string{"proc/self/mountinfo": strings.Replace(goodMounts, "shared:13", "master:13", 1)}, nil, Blocked, "seen by nobody else", "Bidirectional"},
	{"no volume", "run-shared", map[string]string{"proc/self/mountinfo": goodMounts[:strings.Index(goodMounts, "598")]}, nil, Blocked, "seen by nobody else", "Bidirectional"},
	{"covered", "run-shared", map[string]string{"proc/self/mountinfo": goodMounts + "600 598 0:70 / /run/nvidia rw - tmpfs tmpfs rw\n"}, nil, Blocked, "seen by nobody else", "Bidirectional"},
	{"read-only volume", "run-shared", map[string]string{"proc/self/mountinfo": strings.Replace(goodMounts, "/run/nvidia rw", "/run/nvidia ro", 1)}, nil, Blocked, "read-only", "writable"},
	{"read-only file system", "run-shared", map[string]string{"proc/self/mountinfo": strings.Replace(goodMounts, "tmpfs rw,size", "tmpfs ro,size", 1)}, nil, Blocked, "read-only", "writable"},
	{"the host's namespace", "run-shared", map[string]string{
		"proc/self/mountinfo": "1 0 8:1 / / rw - ext4 /dev/vda1 rw\n", "proc/self/ns/mnt": "-> mnt:[4026531840]",
	}, nil, OK, "shares the mounts of process 1", ""},
	{"bare machine, private mounts", "run-shared", map[string]string{
		"proc/self/mountinfo": "1 0 8:1 / / rw - ext4 /dev/vda1 rw\n", "proc/self/ns/mnt": "-> mnt:[4026531840]",
	}, func(i *Input) { i.Host = i.Root }, OK, "shares the mounts of process 1", ""},
	{"container without hostPID", "run-shared", ownPIDs, func(i *Input) { i.Host = i.Root }, Blocked, "seen by nobody else", "Bidirectional"},
	{"no mountinfo", "run-shared", map[string]string{"proc/self/mountinfo": "gone"}, nil, Skipped, "not known", ""},

	{"no GPU", GPUPresent, nil, func(i *Input) { i.GPUs = nil }, Blocked, "no display device", "pci-10de.present"},

	{"nouveau", GPUDriver, nil, bound("nouveau", 0, false), Blocked, "0000:05:00.0 (NVIDIA A100-SXM4-40GB, 10de:20b0) is bound to nouveau", "--unload-nouveau"},
	{"nouveau to unload", GPUDriver, nil, bound("nouveau", 0, true), Warning, "unused: it will be unloaded", "blacklist"},
	{"two with nouveau to unload", GPUDriver, nil, func(i *Input) {
		bound("nouveau", 0, true)(i)
		i.GPUs = append(i.GPUs, at("0000:06:00.0", gpu(a100, "nouveau")))
	}, Warning, "0000:05:00.0 (NVIDIA A100-SXM4-40GB, 10de:20b0), 0000:06:00.0 (NVIDIA A100-SXM4-40GB, 10de:20b0) and unused", "blacklist"},
	{"nouveau in use", GPUDriver, nil, bound("nouveau", 2, true), Blocked, "bound to nouveau", "reboot"},
	{"nova", GPUDriver, nil, bound("nova_core", 0, true), Blocked, "bound to nova_core", "nova_drm"},
	{"vfio-pci", GPUDriver, nil, bound("vfio-pci", 0, false), Blocked, "lent to vfio-pci", "echo 0000:05:00.0 > /sys/bus/pci/drivers/vfio-pci/unbind"},
	{"pci-stub", GPUDriver, nil, bound("pci-stub", 0, false), Blocked, "lent to pci-stub", "pci-stub.ids"},
	{"framebuffer", GPUDriver, nil, bound("nvidiafb", 0, false), Blocked, "bound to nvidiafb", "Blacklist nvidiafb"},
	{"stranger", GPUDriver, nil, bound("odd", 0, false), Blocked, "lent to odd", "/sys/bus/pci/drivers/odd/unbind"},
	{"one of two", GPUDriver, nil, func(i *Input) {
		i.GPUs = []devices.GPU{gpu(a100, "vfio-pci"), at("0000:06:00.0", gpu(a100, "nvidia"))}
	}, OK, "0000:05:00.0 (NVIDIA A100-SXM4-40GB, 10de:20b0) is lent to vfio-pci; the driver takes the other GPUs", ""},
	{"one of two is reserved", GPUDriver, nil, func(i *Input) {
		i.GPUs = []devices.GPU{gpu(a100, "nvidia"), {Function: devices.Function{Address: "0000:06:00.0", Vendor: 0x10de, Device: a100}, Override: "vfio-pci"}}
	}, OK, "0000:06:00.0 (NVIDIA A100-SXM4-40GB, 10de:20b0) is lent to vfio-pci", ""},
	{"the only one is reserved", GPUDriver, nil, func(i *Input) { i.GPUs[0].Override = "vfio-pci" }, Blocked, "lent to vfio-pci", "driver_override"},
	{"lent since the driver was loaded", GPUDriver, nil, func(i *Input) { bound("vfio-pci", 0, false)(i); i.Stays = true }, OK, "stays, without a GPU", ""},
	{"one lent, one with nouveau", GPUDriver, nil, func(i *Input) {
		i.GPUs = []devices.GPU{gpu(a100, "vfio-pci"), at("0000:06:00.0", gpu(a100, "nouveau"))}
	}, Blocked, "0000:06:00.0 (NVIDIA A100-SXM4-40GB, 10de:20b0) is bound to nouveau, 0000:05:00.0", "blacklist"},

	{"K80", GPUSupported, nil, gpus(k80), Blocked, "535.261.03 no longer supports 0000:05:00.0 (Tesla K80, 10de:102d): the last branch that does is 470", "branch 470"},
	{"K80 on 470", GPUSupported, nil, func(i *Input) { gpus(k80)(i); i.Info.Driver = "470.256.02" }, OK, "supports every GPU", ""},
	{"K80 and A100", GPUSupported, nil, func(i *Input) {
		i.GPUs = []devices.GPU{gpu(k80, ""), at("0000:06:00.0", gpu(a100, ""))}
	}, Warning, "will not come up", "branch 470"},
	{"K80, lent", GPUSupported, nil, func(i *Input) {
		i.GPUs = []devices.GPU{gpu(k80, "vfio-pci"), at("0000:06:00.0", gpu(a100, ""))}
	}, OK, "supports every GPU", ""},
	{"T4", GPUSupported, nil, gpus(t4), OK, "its list lacks 0000:05:00.0 (10de:1eb8), but has other GPUs of that chip", ""},
	{"not listed, of an old chip", GPUSupported, nil, gpus(k80 + 1), Warning, "lists neither 0000:05:00.0 (10de:102e)", "newer driver"},
	{"too new", GPUSupported, nil, gpus(tooNew), Warning, "lists neither 0000:05:00.0 (10de:2901)", "newer driver"},
	{"no list", GPUSupported, nil, func(i *Input) { i.Supported, i.SupportedErr = Supported{}, os.ErrNotExist }, Skipped, "cannot tell", ""},

	{"P100 open", GPUFlavour, nil, func(i *Input) { gpus(p100)(i); i.Flavour = driverinfo.Open }, Blocked, "the open modules do not drive 0000:05:00.0 (Tesla P100-PCIE-16GB, 10de:15f8)", "KERNEL_MODULE_TYPE=proprietary"},
	{"P100 open only", GPUFlavour, nil, func(i *Input) {
		gpus(p100)(i)
		i.Flavour, i.Info.Flavours = driverinfo.Open, []string{driverinfo.Open}
	}, Blocked, "the image has no others", "--flavour proprietary"},
	{"GH200 proprietary", GPUFlavour, nil, gpus(gh200), Blocked, "the proprietary modules do not drive", "KERNEL_MODULE_TYPE=open"},
	{"T4 open", GPUFlavour, nil, func(i *Input) { gpus(t4)(i); i.Flavour = driverinfo.Open }, OK, "open modules", ""},
	{"mixed", GPUFlavour, nil, func(i *Input) {
		i.GPUs, i.Flavour = []devices.GPU{gpu(p100, ""), at("0000:06:00.0", gpu(a100, ""))}, driverinfo.Open
	}, Warning, "will not come up", "different nodes"},
	{"mixed, and the other one is lent", GPUFlavour, nil, func(i *Input) {
		i.GPUs, i.Flavour = []devices.GPU{gpu(p100, "vfio-pci"), at("0000:06:00.0", gpu(a100, ""))}, driverinfo.Open
	}, OK, "open modules", ""},
	{"GH200, and only proprietary ones for this kernel", GPUFlavour, nil, func(i *Input) { gpus(gh200)(i); i.Serves = []string{driverinfo.Proprietary} }, Blocked, "the image has no others for kernel " + release, "--flavour open for this kernel"},
	{"no flavour", GPUFlavour, nil, func(i *Input) { i.Flavour = "" }, Skipped, "no flavour", ""},

	{"nvidiafb loaded", "modules", nil, loaded(kmod.Module{Name: "nvidiafb", State: "live"}), Blocked, "nvidiafb", "Blacklist nvidiafb"},
	{"stuck", "modules", nil, loaded(kmod.Module{Name: "nvidia_uvm", State: "going"}), Blocked, "nvidia_uvm is stuck (going)", "Reboot"},
	{"same version", "modules", nil, loaded(kmod.Module{Name: "nvidia", Version: "535.261.03", State: "live"}), OK, "driver 535.261.03 is loaded", ""},
	{"another version", "modules", nil, loaded(kmod.Module{Name: "nvidia", Version: "470.256.02", State: "live"}), Warning, "470.256.02 is loaded and will be replaced by 535.261.03", "Stop what uses"},
	{"another version of the host", "modules", map[string]string{"host/usr/bin/nvidia-smi": "x"}, loaded(kmod.Module{Name: "nvidia", Version: "470.256.02", State: "live"}), Blocked, "the host has a driver of its own", "pre-installed"},
	{"our predecessor's", "modules", map[string]string{"host/usr/bin/nvidia-smi": "x"}, func(i *Input) {
		loaded(kmod.Module{Name: "nvidia", Version: "470.256.02", State: "live"})(i)
		i.Previous = "470.256.02"
	}, Warning, "will be replaced", "Stop what uses"},
	{"gdrdrv", "modules", nil, loaded(kmod.Module{Name: "nvidia", Version: "535.261.03", State: "live"}, kmod.Module{Name: "gdrdrv"}, kmod.Module{Name: "nvidia_fs"}), Warning, "gdrdrv, nvidia_fs", "Stop what loaded"},
	{"modules_disabled", "modules", map[string]string{"proc/sys/kernel/modules_disabled": "1\n"}, nil, Blocked, "kernel.modules_disabled=1", "reboot"},
	{"blacklisted", "modules", map[string]string{"proc/cmdline": "quiet module-blacklist=nouveau module_blacklist=\"x,nvidia_uvm\"\n"}, uvm, Blocked, "module_blacklist=nvidia_uvm", "command line"},
	{"blacklisted before", "modules", map[string]string{"proc/cmdline": "module_blacklist=nvidia module_blacklist=x\n"}, uvm, OK, "no other driver", ""},
	{"start blacklisted", "modules", map[string]string{"proc/cmdline": "initcall_blacklist=a,nvidia_init_module initcall_blacklist=b\n"}, nil, Blocked, "initcall_blacklist=nvidia_init_module", "command line"},
	{"blacklisted for modprobe only", "modules", map[string]string{"proc/cmdline": "modprobe.blacklist=nvidia module_blacklist=nvidia-uvm\n"}, uvm, OK, "no other driver", ""},
	{"modules_disabled, loaded", "modules", map[string]string{"proc/sys/kernel/modules_disabled": "1\n"}, loaded(kmod.Module{Name: "nvidia", Version: "535.261.03", State: "live"}), OK, "is loaded", ""},

	{"nvidia-smi", "host-driver", map[string]string{"host/etc/alternatives/nvidia-smi": "-> /usr/lib/nvidia/nvidia-smi", "host/usr/lib/nvidia/nvidia-smi": "x", "host/usr/bin/nvidia-smi": "-> /etc/alternatives/nvidia-smi"}, nil, Warning, "/usr/bin/nvidia-smi", "pre-installed"},
	{"dangling nvidia-smi", "host-driver", map[string]string{"host/usr/bin/nvidia-smi": "-> /etc/alternatives/nvidia-smi"}, nil, OK, "no driver of its own", ""},
	{"endless nvidia-smi", "host-driver", map[string]string{"host/usr/bin/nvidia-smi": "-> nvidia-smi"}, nil, OK, "no driver of its own", ""},
	{"link out of the host", "host-driver", map[string]string{"host/usr/bin/nvidia-smi": "-> ../../../../../../../../../../../bin/sh", "outside": "x"}, nil, OK, "no driver of its own", ""},
	{"host's modules", "host-driver", map[string]string{"host/usr/lib/modules/" + release + "/modules.dep": "updates/dkms/nvidia-current.ko.xz: kernel/drm.ko\n"}, nil, Warning, "/lib/modules/6.1.0-38-amd64/updates/dkms/nvidia-current.ko.xz", "Remove the driver's packages"},
	{"libcuda", "host-driver", map[string]string{"host/usr/lib/x86_64-linux-gnu/libcuda.so.1": "x"}, nil, Warning, "libcuda.so.1 of another driver", "Remove"},
	{"host not seen", "host-driver", nil, func(i *Input) { i.Host = i.Root }, Skipped, "not known", ""},

	{"secure boot", Signing, secureBoot("Y\n", "none [integrity] confidentiality\n"), nil, Blocked, "Secure Boot is on and the kernel loads signed modules only; the modules have no signature", "mokutil --import"},
	{"validation off in the shim", Signing, secureBoot("N\n", "[none] integrity confidentiality\n"), nil, OK, "although Secure Boot is on", ""},
	{"secure boot, kernel not seen", Signing, secureBoot("gone", "gone"), nil, Warning, "cannot be seen from here", "mokutil --sb-state"},
	{"secure boot, through the host", Signing, map[string]string{
		"sys/module/module/parameters/sig_enforce": "gone", "sys/kernel/security/lockdown": "gone",
		"host/sys/module/module/parameters/sig_enforce": "Y", "host/sys/firmware/efi/efivars/SecureBoot-8be4df61": "\x06\x00\x00\x00\x01",
	}, nil, Blocked, "Secure Boot is on", "Sign"},
	{"sig_enforce", Signing, map[string]string{"sys/module/module/parameters/sig_enforce": "Y\n"}, nil, Blocked, "module.sig_enforce", "switch module.sig_enforce off"},
	{"lockdown", Signing, map[string]string{"sys/kernel/security/lockdown": "none [integrity] confidentiality\n"}, nil, Blocked, "locked down (integrity)", "switch lockdown off"},
	{"lockdown by the command line", Signing, map[string]string{"sys/kernel/security/lockdown": "gone", "proc/cmdline": "quiet lockdown=confidentiality\n"}, nil, Blocked, "locked down (confidentiality)", "lockdown"},
	{"sig_enforce by the command line", Signing, map[string]string{"proc/cmdline": "module.sig-enforce quiet"}, nil, Blocked, "module.sig_enforce", "Sign"},
	{"nothing to be seen", Signing, map[string]string{"sys/module/module/parameters/sig_enforce": "gone", "sys/kernel/security/lockdown": "gone"}, nil, Skipped, "cannot be seen", ""},
	{"nothing to load", Signing, secureBoot("Y", ""), func(i *Input) { i.HaveModules, i.Stays = true, true }, Skipped, "stays", ""},
	{"nothing there", Signing, secureBoot("Y", ""), func(i *Input) { i.CanCompile = false }, Skipped, "no modules to judge", ""},

	{"to be compiled", Available, nil, nil, OK, "will be compiled on this node", ""},
	{"in the image", Available, nil, func(i *Input) { i.HaveModules, i.Source = true, "image" }, OK, "the image has modules for kernel " + release, ""},
	{"in the cache", Available, nil, func(i *Input) { i.HaveModules, i.Source = true, "cache" }, OK, "(cache)", ""},
	{"loaded", Available, nil, func(i *Input) { i.HaveModules, i.Stays = true, true }, OK, "stays", ""},
	{"no compiling", Available, nil, func(i *Input) { i.CanCompile = false }, Blocked, "there are no modules for kernel " + release + ", and they cannot be compiled here", "--no-compile"},
	{"damaged", Available, nil, func(i *Input) { i.Damaged = "the image is damaged" }, Warning, "the image is damaged", "Pull the image again"},
	{"other kernels", Available, nil, thin("6.1.0-37-amd64", "6.1.0-9-amd64", "6.1.0-9-amd64"), Blocked,
		"this image has modules for kernels 6.1.0-37-amd64, 6.1.0-9-amd64; this node runs " + release, "Use an image for this kernel, or one with a toolchain, or add its modules (driver-build --kernel " + release + " ...)."},
	{"mounted modules", Available, nil, func(i *Input) {
		i.HaveModules, i.Source, i.Load = true, "mounted", []Loading{{Name: "nvidia", Path: "/run/module-images/1/set/nvidia.ko"}}
	}, OK, "a mounted image has modules for kernel " + release + ": /run/module-images/1/set", ""},
	{"mounted modules of no use", Available, nil, func(i *Input) { thin("6.1.0-37-amd64")(i); i.LeftAlone = []string{"and x"} }, Blocked, "this node runs " + release + "; and x", "add its modules"},
	{"the modules are to come from beside", Available, nil, thin(), Blocked, "neither modules nor a toolchain", "add its modules"},
	{"the image is damaged", Available, nil, func(i *Input) { thin(release)(i); i.Damaged = "nvidia.ko has changed" }, Blocked, "should have proprietary modules for kernel " + release + ", but they are damaged, or were made by another version of driver-build (nvidia.ko has changed)", "Pull the image again"},
	{"the other flavour", Available, nil, func(i *Input) { thin(release)(i); i.Flavour = driverinfo.Open }, Blocked, "no open modules for kernel " + release + ", only proprietary ones", "Use an image for this kernel"},

	{"GPUDirect Storage that is missing", "gpudirect", nil, func(i *Input) {
		i.Companions, i.GPUDirect = []string{driverinfo.NvidiaFS}, func() (string, string) { return "it will be missing", "Use another image." }
	}, Warning, "it will be missing", "Use another image."},
	{"NVSwitch without a fabric manager", "fabric", nil, func(i *Input) {
		i.Fabric = func(fabric.Kernel) (string, string, bool) { return "the image lacks it", "Use an image with it.", true }
	}, Blocked, "the image lacks it", "Use an image with it."},
	{"a guest driver that does not fit the host", "vgpu", nil, func(i *Input) {
		i.VGPU = func() (string, string, bool) { return "it does not fit", "Use another one.", true }
	}, Blocked, "it does not fit", "Use another one."},
	{"an expired token", "vgpu", nil, func(i *Input) {
		i.VGPU = func() (string, string, bool) { return "it expired", "Renew it.", false }
	}, Warning, "it expired", "Renew it."},
	{"NVLink 5 with a module to load", "fabric", map[string]string{"sys/module/mlx5_core/": ""}, func(i *Input) {
		i.Fabric = func(k fabric.Kernel) (string, string, bool) {
			return fmt.Sprint(k.Loaded("mlx5_core"), k.Loadable("mlx5_core"), k.Loaded("ipmi_msghandler"), k.Loadable("ipmi_msghandler"), k.Loadable("ib_umad"), k.Packages), "", false
		}
	}, OK, "true false false true false", ""},

	{"nothing known", "advisories", nil, nil, OK, "nothing is known against driver 535.261.03", ""},
	{"branch over", "advisories", nil, func(i *Input) { i.Info.Advisories, i.Now = ends, on("2026-07-01") }, Warning, "driver 535.261.03: support of its branch ended with 2026-06 (NVIDIA)", "a branch that NVIDIA supports"},
	{"branch ends soon", "advisories", nil, func(i *Input) { i.Info.Advisories, i.Now = ends, on("2026-06-30") }, OK, "support of its branch ends with 2026-06", ""},
	{"branch ends later", "advisories", nil, func(i *Input) { i.Info.Advisories, i.Now = ends, on("2025-06-30") }, OK, "nothing is known against", ""},
	{"known to be bad", "advisories", nil, func(i *Input) { i.Info.Advisories, i.Now = append(faulty, ends...), on("2026-06-30") }, Warning,
		"known to be bad: nodes with MIG: pods stay Pending; fixed in 580.1 (issue 1); support of its branch ends with 2026-06", "Use driver 580.1 or a newer one."},

	{"too new a kernel", "kernel-limit", nil, func(i *Input) { i.Info.Kernel.Max = "5.15" }, Blocked, "kernel 6.1.0-38-amd64 is newer than 5.15, the newest that driver 535.261.03 is known to compile on (Gentoo)", "--skip-preflight kernel-limit"},
	{"overridden", "kernel-limit", nil, func(i *Input) {
		i.Info.Kernel.Max, i.Info.Overridden = "5.15", []string{driverinfo.KernelTooNew}
	}, Warning, "the rule was overridden", "newer driver"},
	{"overridden, and broken all the same", "kernel-limit", map[string]string{"proc/version": debianVersion}, func(i *Input) {
		i.Info.Kernel.Max, i.Info.Overridden, i.Info.Kernel.Broken = "5.15", []string{driverinfo.KernelTooNew}, brokenRange()
	}, Blocked, "do not work on kernel", "KERNEL_MODULE_TYPE"},
	{"no toolchain", "kernel-limit", nil, func(i *Input) { thin(release)(i); i.Info.Kernel.Max = "5.15" }, Skipped, "nothing can be compiled", ""},
	{"modules for it", "kernel-limit", nil, func(i *Input) { i.Info.Kernel.Max, i.HaveModules = "5.15", true }, OK, "at hand", ""},

	{"broken", "kernel-limit", map[string]string{"proc/version": debianVersion}, func(i *Input) { i.Info.Kernel.Broken = brokenRange() }, Blocked,
		"the proprietary modules of driver 535.261.03 do not work on kernel 6.1.0-38-amd64 (6.1.192), nor on any other from 6.1.187 on, below 6.2: because", "KERNEL_MODULE_TYPE"},
	{"perhaps broken", "kernel-limit", nil, func(i *Input) { i.Info.Kernel.Broken = brokenRange() }, Warning, "does not say whether it is one of them", "If the compile fails"},
	{"the other flavour is broken", "kernel-limit", map[string]string{"proc/version": debianVersion}, func(i *Input) {
		i.Info.Kernel.Broken, i.Flavour = brokenRange(), driverinfo.Open
	}, OK, "compiles on kernel", ""},
	{"broken and overridden", "kernel-limit", map[string]string{"proc/version": debianVersion}, func(i *Input) {
		i.Info.Kernel.Broken, i.Info.Overridden = brokenRange(), []string{driverinfo.KernelBroken}
	}, Warning, "the rule was overridden", "newer driver"},
	{"broken, and modules for it", "kernel-limit", map[string]string{"proc/version": debianVersion}, func(i *Input) {
		i.Info.Kernel.Broken, i.HaveModules = brokenRange(), true
	}, OK, "at hand", ""},

	{"toolkit", Headers, nil, func(i *Input) { i.Toolkit, i.HeadersErr = i.Root, errors.New("none") }, OK, "the Driver Toolkit container compiles for kernel " + release, ""},
	{"toolkit without image, and no headers", Headers, nil, func(i *Input) {
		i.Toolkit, i.ToolkitMissing, i.HeadersErr = i.Root, "driver-toolkit:418.94.1", errors.New("no headers of")
	}, Blocked, "no headers of", "no image stream tag driver-toolkit:418.94.1 in namespace openshift"},
	{"toolkit without folder", Headers, nil, func(i *Input) { i.Toolkit = "/nowhere" }, Warning, "/nowhere is not there", "emptyDir"},
	{"compiler of the toolkit", Compiler, nil, func(i *Input) { i.Toolkit, i.CompilerErr = i.Root, errors.New("none") }, Skipped, "the Driver Toolkit container has it", ""},
	{"no headers", Headers, nil, func(i *Input) { i.HeadersErr = errors.New("no headers of " + release + " in image, host") }, Blocked, "no headers of", "linux-headers-" + release},
	{"headers to fetch", Headers, nil, func(i *Input) { i.HeadersErr, i.FetchHeaders = errors.New("none"), true }, Warning, "will be fetched", "install the headers"},
	{"no sources", Headers, nil, func(i *Input) { i.CanCompile = false }, Skipped, "nothing can be compiled", ""},
	{"nothing to compile", Headers, nil, func(i *Input) { i.HaveModules = true }, Skipped, "nothing has to be compiled", ""},

	{"no compiler", Compiler, nil, func(i *Input) { i.CompilerErr = errors.New("no gcc on PATH") }, Blocked, "no gcc on PATH", "gcc"},
	{"no compiler yet", Compiler, nil, func(i *Input) {
		i.CompilerErr, i.HeadersErr, i.FetchHeaders = errors.New("none"), errors.New("none"), true
	}, Skipped, "chosen when", ""},
	{"other compiler", Compiler, nil, func(i *Input) { i.WantedGCC = "gcc 11.4.0" }, Warning, "made with gcc 11.4.0, the modules will be compiled with gcc-12 12.2.0", "host's system"},
	{"no compile", Compiler, nil, func(i *Input) { i.CanCompile = false }, Skipped, "nothing", ""},

	{"disk full", Disk, nil, func(i *Input) {
		i.Free = func(string) (Space, error) { return Space{Bytes: 5 << 20, Inodes: 1 << 20}, nil }
	}, Blocked, "5 MiB are free in /state/nvidia-driver, 1.0 GiB are needed", "Free space"},
	{"no inodes", Disk, nil, func(i *Input) {
		i.Staging = func() (need, spare Space) {
			return Space{Inodes: 9000}, Space{Inodes: 50}
		}
		i.Free = func(string) (Space, error) { return Space{Bytes: 5 << 30, Inodes: 8000}, nil }
	}, Blocked, "8000 inodes are free in /state/nvidia-driver, and 50 in driver roots that nobody mounts; the driver root takes 9", "df -i"},
	{"inodes of old roots", Disk, nil, func(i *Input) {
		i.Staging = func() (need, spare Space) {
			return Space{Inodes: 9000}, Space{Inodes: 5000}
		}
		i.Free = func(string) (Space, error) { return Space{Bytes: 5 << 30, Inodes: 8000}, nil }
	}, OK, "5.0 GiB free", ""},
	{"disk unknown", Disk, nil, func(i *Input) {
		i.Free = func(string) (Space, error) { return Space{}, os.ErrPermission }
	}, Skipped, "not known", ""},
	{"disk of this machine", Disk, nil, func(i *Input) {
		i.Free, i.CanCompile = nil, false
		i.Staging = func() (need, spare Space) { return Space{Bytes: 1}, Space{} }
	}, OK, "free in /state/nvidia-driver", ""},
	{"nothing to compile", Disk, nil, func(i *Input) { i.CanCompile = false }, Skipped, "nothing", ""},
	{"no disk needed", Disk, nil, func(i *Input) { i.StateDir = "" }, Skipped, "nothing", ""},
}

// ownPIDs is a container without hostPID, whose root is the disk of a snapshotter (btrfs, devmapper) and not an overlay.
var ownPIDs = map[string]string{
	"proc/self/mountinfo": strings.NewReplacer(" shared:13", "", "overlay overlay rw,lowerdir=/a", "ext4 /dev/vda1 rw").Replace(goodMounts),
	"proc/self/ns/mnt":    "-> mnt:[4026531840]",
	"proc/self/ns/pid":    "-> pid:[4026532002]",
}

func bound(driver string, refs int, unload bool) func(*Input) {
	return func(i *Input) {
		i.GPUs, i.UnloadNouveau = []devices.GPU{gpu(a100, driver)}, unload
		i.Modules = append(i.Modules, kmod.Module{Name: driver, State: "live", Refs: refs})
	}
}

func gpus(device uint16) func(*Input) {
	return func(i *Input) { i.GPUs = []devices.GPU{gpu(device, "")} }
}

// uvm loads the module nvidia-uvm too.
func uvm(i *Input) { i.Load = append(i.Load, Loading{Name: "nvidia-uvm"}) }

func loaded(modules ...kmod.Module) func(*Input) {
	return func(i *Input) { i.Modules = append(i.Modules, modules...) }
}

// thin is an image without a toolchain, with proprietary modules for some kernels.
func thin(kernels ...string) func(*Input) {
	return func(i *Input) {
		i.CanCompile, i.Info.Toolchain = false, false
		for n, k := range kernels {
			flavour := driverinfo.Proprietary
			if slices.Contains(kernels[:n], k) {
				flavour = driverinfo.Open
			}
			i.Info.Precompiled = append(i.Info.Precompiled, driverinfo.Precompiled{Kernel: k, Flavour: flavour})
		}
	}
}

func secureBoot(enforce, lockdown string) map[string]string {
	return map[string]string{
		"sys/module/module/parameters/sig_enforce": enforce, "sys/kernel/security/lockdown": lockdown,
		"sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c": "\x06\x00\x00\x00\x01",
	}
}

func TestChecks(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, c := range cases {
		seen[c.check] = true
		t.Run(c.check+"/"+c.name, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t, c.files)
			in := m.input()
			if c.input != nil {
				c.input(&in)
			}
			got := find(t, Run(t.Context(), in), c.check)
			finding, fix := m.rename(got.Finding), m.rename(got.Fix)
			if got.Status != c.status || !strings.Contains(finding, c.find) || !strings.Contains(fix, c.fix) {
				t.Errorf("%s: %s (%s)\nwant %s: %s (%s)", got.Status, finding, fix, c.status, c.find, c.fix)
			}
			assert.Equalf(t, fix != "", got.Status == Blocked || got.Status == Warning, "%s with fix %q", got.Status, fix)
		})
	}
	for _, s := range steps() {
		assert.Equalf(t, true, seen[s.name], "a case for check %s", s.name)
	}
}

// TestGood: a node without faults passes every check.
func TestGood(t *testing.T) {
	t.Parallel()
	m := newMachine(t, nil)
	checks := Run(t.Context(), m.input())
	for _, c := range checks {
		if c.Status != OK && c.Name != "gpudirect" {
			t.Errorf("%+v", c)
		}
	}
	assert.NoError(t, Blocking(checks))
	var b bytes.Buffer
	require.NoError(t, Table(&b, checks))
	goldentest.Compare(t, "testdata/good.txt", m.rename(b.String()))
}

// TestBad: a node with many faults: the table, the error and the JSON.
func TestBad(t *testing.T) {
	t.Parallel()
	files := secureBoot("Y", "none [integrity] confidentiality")
	files["proc/self/mountinfo"] = strings.Replace(goodMounts, "shared:13", "", 1)
	files["host/usr/bin/nvidia-smi"] = "x"
	m := newMachine(t, files)
	in := m.input()
	in.GPUs = []devices.GPU{gpu(k80, "nouveau")}
	in.HeadersErr = fmt.Errorf("no headers of kernel %s: looked in\n\timage, host", release)
	in.Info.Kernel.Max = "5.15"
	checks := Run(t.Context(), in)
	var b bytes.Buffer
	require.NoError(t, Table(&b, checks))
	text, err := json.MarshalIndent(checks[:9], "", "  ")
	require.NoError(t, err)
	err = Blocking(checks)
	goldentest.Compare(t, "testdata/bad.txt", m.rename(fmt.Sprintf("%s\n%v\n\n%s\n", b.String(), err, text)))
	if blocked, ok := errors.AsType[*BlockedError](err); !ok || !blocked.Has(Signing) || blocked.Has("vgpu") {
		t.Errorf("%#v", err)
	}
	b.Reset()
	require.NoError(t, Table(&b, []Check{{Name: "gpu", Status: Warning, Finding: "a\x1b[31m\nb", Fix: "do it"}}))
	goldentest.Compare(t, "testdata/warning.txt", b.String())
}

// TestEmpty: nothing is known, and no check panics. A cancelled run ends.
func TestEmpty(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	checks := Run(t.Context(), Input{Sys: dir, Proc: dir, Root: dir, Host: dir})
	if len(checks) != len(steps()) || !slices.ContainsFunc(checks, func(c Check) bool { return c.Status == Blocked }) {
		t.Errorf("%+v", checks)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	assert.Equal(t, 0, len(Run(ctx, Input{})))
	_ = Run(t.Context(), Input{}) // this machine, whatever it is
}

// debianVersion is /proc/version of a kernel of Debian 12.
const debianVersion = "Linux version 6.1.0-38-amd64 (debian-kernel@lists.debian.org) (gcc-12 (Debian 12.2.0-14) 12.2.0) #1 SMP PREEMPT_DYNAMIC Debian 6.1.192-2 (2026-10-30)\n"

func brokenRange() []driverinfo.Broken {
	return []driverinfo.Broken{{From: "6.1.187", Below: "6.2", Flavours: []string{driverinfo.Proprietary}, Reason: "because"}}
}
