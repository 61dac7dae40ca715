package rehearse

import (
	"maps"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/images/rehearse/guest"
)

// Pod is how a cluster runs the container of a driver.
type Pod struct {
	Container guest.Container   // without an image
	Files     map[string]string // contents on the guest's host, by path: those of ConfigMaps
	Left      []string          // what of a cluster there is not in a guest
}

// ChartPod returns the driver's pod as deploy/chart makes it of its own defaults.
func ChartPod() Pod {
	return Pod{Container: guest.Container{
		HostDev: true,
		Command: []string{"nvidia-driver"},
		Args:    []string{"init"},
		Mounts: []guest.Mount{
			{Host: "/run/nvidia", Guest: "/run/nvidia", Shared: true},
			{Host: "/lib/modules", Guest: "/lib/modules", ReadOnly: true},
			{Host: "/usr", Guest: "/host/usr", ReadOnly: true},
			{Host: "/var/lib/nvidia-driver", Guest: "/var/lib/nvidia-driver"},
		},
	}}
}

// operatorPod returns the pod of an image of others as NVIDIA's GPU Operator makes it: the volumes
// of assets/state-driver/0500_daemonset.yaml that a guest can have.
func operatorPod() Pod {
	return Pod{Container: guest.Container{
		Command: []string{"nvidia-driver"},
		Args:    []string{"init"},
		Env:     []string{"NVIDIA_VISIBLE_DEVICES=void"},
		Mounts: []guest.Mount{
			{Host: "/run/nvidia", Guest: "/run/nvidia", Shared: true},
			{Host: "/var/log", Guest: "/var/log"},
			{Host: "/etc/os-release", Guest: "/host-etc/os-release", ReadOnly: true, File: true},
			{Host: "/sys/module/firmware_class/parameters/path", Guest: "/sys/module/firmware_class/parameters/path", File: true},
			{Host: "/sys/devices/system", Guest: "/sys/devices/system"},
			{Host: "/run/nvidia/driver/lib/firmware", Guest: "/lib/firmware"},
			{Host: "/lib/modules", Guest: "/run/host/lib/modules", ReadOnly: true},
		},
	}}
}

// inGuest are variables that a rehearsal sets, whatever the values say. The fake GPU never
// initialises, so that is a warning, and there is no state that nvidia-persistenced could keep. A
// stop waits for holders as long as the grace says. A rehearsal reads the log as text.
var inGuest = []string{
	"DRIVER_GPU_INIT=warn", "DRIVER_PERSISTENCE=false", "DRIVER_GRACE=15s", "DRIVER_LOG_FORMAT=text",
}

// container returns the pod's container of an image, with further mounts, which take the place of
// those at the same path.
func (p Pod) container(image string, mounts ...guest.Mount) guest.Container {
	c := p.Container
	c.Image = image
	c.Env = slices.Concat(c.Env, inGuest)
	c.Args = slices.Clone(c.Args)
	for _, variable := range inGuest { // which a flag among the arguments would win over
		name, value, _ := strings.Cut(strings.TrimPrefix(variable, "DRIVER_"), "=")
		flag := "--" + strings.ReplaceAll(strings.ToLower(name), "_", "-")
		if slices.ContainsFunc(c.Args, func(arg string) bool { return strings.HasPrefix(arg, flag) }) {
			c.Args = append(c.Args, flag+"="+value)
		}
	}
	c.Mounts = slices.Clone(c.Mounts)
	for _, m := range mounts {
		c.Mounts = slices.DeleteFunc(c.Mounts, func(old guest.Mount) bool { return old.Guest == m.Guest })
		c.Mounts = append(c.Mounts, m)
	}
	return c
}

// paths returns the paths of the files, sorted.
func (p Pod) paths() []string { return slices.Sorted(maps.Keys(p.Files)) }
