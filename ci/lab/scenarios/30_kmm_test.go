package scenarios

import (
	"strings"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/lab"
	"github.com/driver-container/driver-container/ci/lab/uefi"
	"github.com/driver-container/driver-container/ci/testcert"
)

// Where the pod of Kernel Module Management has its volumes on the node, and the firmware of all modules.
const (
	kmmTmp        = "/var/lib/kubelet/pods/kmm/tmp"
	kmmNoOrder    = "/var/lib/kubelet/pods/kmm/no-order"
	kmmOrder      = "/var/lib/kubelet/pods/kmm/order"
	kmmFirmware   = "/var/lib/firmware"
	imageFirmware = "/usr/share/nvidia-driver/firmware"
)

// kmmImage builds the thin image of a kernel for Kernel Module Management.
func kmmImage(t *testing.T, kernel *lab.HostKernel, name string, flags ...string) lab.Image {
	t.Helper()
	making.Lock()
	defer making.Unlock()
	dir := d535.layoutOf(t, name+"-"+kernel.Release, append([]string{"--builder", "chroot", "--kernel", kernel.Release, "--kmm"}, flags...)...)
	return lab.ImageDisk(t, dir, d535.driver+"-"+kernel.Release+"-"+d535.system)
}

// extracted runs the first container of the pod, of the driver's image: it copies modules and firmware into
// the pod's volume. Commands, mounts and limits of both containers are those of the sources
// (internal/pod/workerpodmanager.go).
func extracted(t *testing.T, g *lab.Guest, image, release string) {
	t.Helper()
	g.Sh("rm -rf " + kmmTmp)
	script := "\nmkdir -p /tmp/opt/lib/modules;\ncp -R /opt/lib/modules/" + release + " /tmp/opt/lib/modules;\n" +
		"\nmkdir -p /tmp" + imageFirmware + ";\ncp -R " + imageFirmware + "/* /tmp" + imageFirmware + ";\n"
	c := lab.Container{Image: image, Command: []string{"/bin/sh", "-c"}, Args: []string{script}, Name: "image-extractor", MemoryMB: 128, CPUs: 1, PrivatePID: true}
	p := g.Start(c.With(lab.Mount{Host: kmmTmp, Guest: "/tmp"}))
	ends(t, p, 0, 2*time.Minute)
	p.Kill()
}

// kmmWorker runs a command in the second container, which calls modprobe. It has Debian's kmod of the image
// in place of its own, and no configuration of modprobe except, for a load, the order of the modules.
func kmmWorker(t *testing.T, g *lab.Guest, image string, code int, command ...string) string {
	t.Helper()
	c, order := lab.Container{Image: image, Command: command, Name: "worker", MemoryMB: 128, CPUs: 1, PrivatePID: true}, kmmOrder
	if strings.HasPrefix(command[1], "-r") {
		order = kmmNoOrder
	}
	for guest, host := range map[string]string{"/lib/modules": "/lib/modules", "/host/lib/modules": "/lib/modules", "/tmp": kmmTmp, "/etc/modprobe.d": order} {
		c = c.With(lab.Mount{Host: host, Guest: guest, ReadOnly: true})
	}
	p := g.Start(c.With(lab.Mount{Host: kmmFirmware, Guest: kmmFirmware}))
	out := ends(t, p, code, 2*time.Minute)
	p.Kill()
	return out
}

// What becomes of the Module in docs/kmm.md: a load by softdep.conf, and an unload by args.unload.
var (
	kmmLoad   = []string{"modprobe", "-vd", "/tmp/opt", "nvidia-uvm"}
	kmmUnload = []string{"modprobe", "-rvd", "/tmp/opt", "nvidia-modeset", "nvidia-uvm"}
)

// ordered writes what Kernel Module Management makes of modulesLoadingOrder.
func ordered(g *lab.Guest) {
	g.Write(kmmOrder+"/softdep.conf", "softdep nvidia-uvm pre: nvidia-modeset\nsoftdep nvidia-modeset pre: nvidia\n", 0o644)
}

// Kernel Module Management loads a thin image that was made for it, with the real modprobe and the real
// modules, and unloads it. A container of the same image adopts what is loaded.
func Test30KMM(t *testing.T) {
	lab.Gate(t)
	kernel := lab.Kernel(t, "debian12")
	g := stage{disks: map[string]lab.Image{"kmm": kmmImage(t, kernel, "kmm")}}.start(t)
	ordered(g)
	extracted(t, g, "kmm", kernel.Release)
	contains(t, kmmWorker(t, g, "kmm", 1, kmmLoad...), `could not insert 'nvidia_uvm': Unknown symbol`)
	assert.Equalf(t, "", strings.Join(g.Driver(), " "), "modules without those of the kernel that they need")
	g.Module("drm")
	g.Module("video")

	kmmWorker(t, g, "kmm", 0, "modprobe", "-rv", "nouveau") // inTreeModulesToRemove
	kmmWorker(t, g, "kmm", 0, "cp", "-R", "/tmp"+imageFirmware+"/.", kmmFirmware)
	g.Write("/sys/module/firmware_class/parameters/path", kmmFirmware, 0)
	load := func() {
		out := kmmWorker(t, g, "kmm", 0, kmmLoad...)
		contains(t, out, `(?s)insmod /tmp/opt/lib/modules/[^ ]+/nvidia\.ko.*/nvidia-modeset\.ko.*/nvidia-uvm\.ko`)
		assert.Equalf(t, "nvidia nvidia_modeset nvidia_uvm", strings.Join(g.Driver(), " "), "modules")
		assert.Equalf(t, d535.driver, driverLoaded(g), "version")
	}
	load()
	if !g.Exists(kmmFirmware + "/nvidia/" + d535.driver + "/gsp_tu10x.bin") {
		t.Errorf("the GSP firmware is not where the kernel looks: %s", g.Sh("find "+kmmFirmware))
	}
	kmmWorker(t, g, "kmm", 0, "modprobe", "-rvd", "/tmp/opt", "nvidia-uvm")
	assert.Equalf(t, "nvidia nvidia_modeset", strings.Join(g.Driver(), " "), "modules after an unload without args.unload")
	kmmWorker(t, g, "kmm", 0, kmmUnload...)
	assert.Equalf(t, "", strings.Join(g.Driver(), " "), "modules after the unload")

	load()
	p := adopts(t, g, driver("kmm"), kernelView(g))
	stops(t, p, 0)
	assert.Equalf(t, "", strings.Join(g.Driver(), " "), "modules after the stop of our container")
	assert.Equalf(t, kmmFirmware, g.Sh("cat /sys/module/firmware_class/parameters/path"), "the kernel's firmware")
	kmmWorker(t, g, "kmm", 0, kmmUnload...) // what is gone is no error
}

// With Secure Boot the kernel refuses the modules of such an image, and loads those of one that was signed
// when it was built.
func Test20KMM(t *testing.T) {
	lab.Gate(t)
	kernel := lab.Kernel(t, "debian12")
	site := uefi.NewKey("The site's modules")
	g := stage{disks: map[string]lab.Image{"kmm": kmmImage(t, kernel, "kmm"), "signed": kmmImage(t, kernel, "kmm-signed", signedBy(t, site)...)},
		edit: func(c *lab.Config) {
			c.Firmware = &lab.Firmware{Variables: []uefi.Variable{uefi.PK(site.Certificate), uefi.KEK(site.Certificate), uefi.DB(site.Certificate)}}
		}}.start(t)
	ordered(g)
	g.Module("drm")
	g.Module("video")
	extracted(t, g, "kmm", kernel.Release)
	contains(t, kmmWorker(t, g, "kmm", 1, kmmLoad...), `could not insert 'nvidia_uvm': Key was rejected by service`)
	extracted(t, g, "signed", kernel.Release)
	kmmWorker(t, g, "signed", 0, kmmLoad...)
	assert.Equalf(t, "nvidia nvidia_modeset nvidia_uvm", strings.Join(g.Driver(), " "), "modules")
	cleanTaint(t, g)
	contains(t, kmmWorker(t, g, "signed", 0, kmmUnload...), `rmmod nvidia_modeset`, `rmmod nvidia_uvm`, `rmmod nvidia\n`)
	assert.Equalf(t, "", strings.Join(g.Driver(), " "), "modules after the unload")
}

// signedBy returns the flags of driver-build that sign with a key.
func signedBy(t *testing.T, pair *testcert.Pair) []string {
	t.Helper()
	dir := t.TempDir()
	pair.Write(t, dir+"/cert.pem", dir+"/key.pem")
	return []string{"--sign-key", dir + "/key.pem", "--sign-cert", dir + "/cert.pem"}
}
