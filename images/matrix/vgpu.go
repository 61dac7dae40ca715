package matrix

import (
	"path"
	"regexp"
	"slices"

	"go.yaml.in/yaml/v4"

	"github.com/driver-container/driver-container/distros/driverinfo"
)

// vGPU guest drivers come in archives with names of their own. The owner of the cloud is in the name of some:
// NVIDIA-Linux-x86_64-550.144.06-grid-azure.run. The archive of NVIDIA's licence portal and that of Google
// have none.
var (
	guestArchive = regexp.MustCompile(`-grid(?:-(aws|azure|gcp|google))?\.run$`)
	hostArchive  = regexp.MustCompile(`-vgpu-[a-z]+\.run$`)
	guestCloud   = map[string]string{
		"aws": driverinfo.VGPUAWS, "azure": driverinfo.VGPUAzure, "gcp": driverinfo.VGPUGoogle, "google": driverinfo.VGPUGoogle,
	}
)

// checkGuest compares the key vgpu of a driver with the rest of the row. A row whose archive is one of a vGPU
// guest driver must say so: images of such a row do not go to public registries.
func (d *decoder) checkGuest(to *Driver, n *yaml.Node) {
	for arch, a := range to.Archives {
		name := path.Base(a.URL)
		cloud := guestArchive.FindStringSubmatch(name)
		switch {
		case hostArchive.MatchString(name):
			d.errorf(n, "the archive %s is the driver of a vGPU host: images have guest drivers, whose names end in -grid.run", quoted(name))
		case to.VGPU == "" && cloud != nil:
			d.errorf(n, "the archive %s is a vGPU guest driver: add the key vgpu, which says whose licence it needs", quoted(name))
		case to.VGPU == "":
		case cloud == nil && a.URL != "":
			d.errorf(n, "driver %s has the key vgpu, but the name of its archive %s does not end in -grid.run or -grid-<cloud>.run", to.Version, quoted(name))
		case arch != "amd64":
			d.errorf(n, "driver %s is a vGPU guest driver, and NVIDIA has these for amd64 only: remove the archive for %s", to.Version, arch)
		case cloud != nil && cloud[1] != "" && guestCloud[cloud[1]] != to.VGPU:
			d.errorf(n, "the archive %s is licensed for %s, the key vgpu says %s", quoted(name), guestCloud[cloud[1]], to.VGPU)
		}
	}
	if to.VGPU == "" {
		return
	}
	if to.Debian != nil {
		d.errorf(n, "driver %s has both vgpu and debian: Debian has no packages of vGPU guest drivers", to.Version)
	}
	if len(to.Components) > 0 {
		d.errorf(n, "driver %s has both vgpu and components: a vGPU guest has no NVLink switches", to.Version)
	}
}

// Guest reports whether any target has a vGPU guest driver, and returns the first that does.
func Guest(targets []Target) (first Target, found bool) {
	i := slices.IndexFunc(targets, func(t Target) bool { return t.Driver.VGPU != "" })
	if i < 0 {
		return Target{}, false
	}
	return targets[i], true
}
