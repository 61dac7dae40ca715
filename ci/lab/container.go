package lab

import (
	"crypto/rand"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/ci/lab/wire"
)

// Container describes a container to start: a privileged container of a pod with hostPID, on the host's
// network.
type Container struct {
	Image    string   // a name of Config.Images; "" for a process on the host itself
	Command  []string // instead of the image's command
	Args     []string // after the command
	Env      []string // after the image's variables
	Dir      string
	Name     string // of the container; "" means "nvidia-driver-ctr"
	PodUID   string // "" means a random one
	Mounts   []Mount
	MemoryMB int     // limit, 0 for none
	CPUs     float64 // limit, 0 for none
	// HostDev mounts the host's /dev into the container. Without it the container gets a copy of the nodes that
	// the host has at the start.
	HostDev bool
	// UpperMB puts the container's upper layer on a tmpfs of this size, so that it can be full; without it the
	// layer is on the host's disk.
	UpperMB    int
	PrivatePID bool // not the host's PID namespace
}

// Mount is a hostPath volume.
type Mount struct {
	Host     string // on the guest's host; a missing folder is made
	Guest    string // in the container
	ReadOnly bool
	Shared   bool // mounts appear on both sides: mountPropagation Bidirectional
	File     bool // a file instead of a folder
}

// DriverPod returns a container with the volumes of a driver DaemonSet. The host's /usr/src is not one of
// them: it would hide the driver's sources in the image. The container can still read it through the host's
// processes.
func DriverPod(image string, env ...string) Container {
	return Container{Image: image, Env: env, Name: "nvidia-driver-ctr", Mounts: []Mount{
		{Host: "/run/nvidia", Guest: "/run/nvidia", Shared: true},
		{Host: "/var/lib/nvidia-driver", Guest: "/var/lib/nvidia-driver"},
		{Host: "/lib/modules", Guest: "/lib/modules", ReadOnly: true},
		{Host: "/drivers", Guest: "/drivers", ReadOnly: true},
		{Host: "/etc/os-release", Guest: "/host-etc/os-release", ReadOnly: true, File: true},
		{Host: "/var/log", Guest: "/var/log"},
		{Host: "/sys", Guest: "/sys"},
	}}
}

// With returns the container with one more volume.
func (c Container) With(m Mount) Container {
	c.Mounts = append(slices.Clone(c.Mounts), m)
	return c
}

// Without returns the container without the volume at a path.
func (c Container) Without(guest string) Container {
	c.Mounts = slices.DeleteFunc(slices.Clone(c.Mounts), func(m Mount) bool { return m.Guest == guest })
	return c
}

// spec returns the specification that the agent receives.
func (c Container) spec(images map[string]Image) wire.Spec {
	s := wire.Spec{
		ID: newID(), Dir: c.Dir, PodUID: c.PodUID, Name: c.Name, HostDev: c.HostDev, OwnPIDs: c.PrivatePID, UpperMB: c.UpperMB,
		Memory: int64(c.MemoryMB) << 20, CPUs: c.CPUs, Args: append(slices.Clone(c.Command), c.Args...),
	}
	if c.Image == "" {
		s.Env = append(hostEnv(), c.Env...)
		return s
	}
	image := images[c.Image]
	if len(c.Command) == 0 {
		s.Args = append(slices.Clone(image.Command), c.Args...)
	}
	s.Image = image.lowerdir(c.Image)
	s.Env = lastOfEach(append(append(slices.Clone(image.Env), "HOME=/root"), c.Env...))
	if s.PodUID == "" {
		s.PodUID = newPodUID()
	}
	if s.Name == "" {
		s.Name = "nvidia-driver-ctr"
	}
	for _, m := range c.Mounts {
		s.Binds = append(s.Binds, wire.Bind(m))
	}
	s.Binds = append(s.Binds, wire.Bind{Host: terminationLog(s.PodUID, s.ID), Guest: "/dev/termination-log", File: true})
	return s
}

// lastOfEach keeps the last value of each variable, as container runtimes do: otherwise a process would use
// the first of two.
func lastOfEach(env []string) []string {
	var kept []string
	for i, e := range env {
		name, _, _ := strings.Cut(e, "=")
		if !slices.ContainsFunc(env[i+1:], func(later string) bool { return strings.HasPrefix(later, name+"=") }) {
			kept = append(kept, e)
		}
	}
	return kept
}

func hostEnv() []string { return []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root"} }

func imageDir(name string) string { return "/lab/images/" + name }

func newID() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

func newPodUID() string {
	h := newID()
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:32]
}
