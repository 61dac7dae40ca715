package lab

import (
	"regexp"
	"slices"
	"syscall"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/images/rehearse/guest"
)

// Process is a process in the guest: a container, a process in a container, or one on the guest's
// host. Its methods end the test when they fail.
type Process struct {
	*guest.Process

	g *Guest
}

// Wait waits for the end and returns the exit code, which is 128+n when signal n ended the process,
// and all output.
func (p *Process) Wait(limit time.Duration) (code int, output string) {
	p.g.t.Helper()
	code, err := p.Process.Wait(p.g.within(limit))
	p.must(err)
	return code, p.Output()
}

// WaitLine waits for a line that matches, after WaitLine's last match. If the process ends without
// such a line, the test fails.
func (p *Process) WaitLine(pattern string, limit time.Duration) string {
	p.g.t.Helper()
	line, err := p.Process.WaitLine(p.g.within(limit), regexp.MustCompile(pattern))
	p.must(err)
	return line
}

func (p *Process) must(err error) {
	p.g.t.Helper()
	if err != nil {
		p.g.t.Fatalf("%v; it printed:\n%s", err, tail(p.Output()))
	}
}

// Signal sends a signal to the first process.
func (p *Process) Signal(s syscall.Signal) {
	p.g.t.Helper()
	p.must(p.Process.Signal(p.g.within(startLimit), s))
}

// Kill ends all processes of a container with SIGKILL and removes it as containerd does.
func (p *Process) Kill() {
	p.g.t.Helper()
	p.must(p.Process.Kill(p.g.within(startLimit)))
}

// Exec runs a command in the container with the container's environment, as `kubectl exec` and
// kubelet's probes do.
func (p *Process) Exec(args ...string) guest.Result {
	p.g.t.Helper()
	return require.Value(p.Process.Exec(p.g.within(runLimit), args...))(p.g.t)
}

// Hold opens a device file in the container and keeps it open until Kill. It returns when the file
// is open.
func (p *Process) Hold(device string) *Process {
	p.g.t.Helper()
	held, err := p.Process.Hold(p.g.within(startLimit), device)
	return p.g.process(held, err)
}

// Termination returns the content of the container's /dev/termination-log.
func (p *Process) Termination() string {
	p.g.t.Helper()
	return require.Value(p.Process.Termination(p.g.within(startLimit)))(p.g.t)
}

// Container describes a container to start, or without an image a process on the host itself.
type Container guest.Container

// DriverPod returns a container with the volumes of a driver DaemonSet. The host's /usr/src is not
// one of them: it would hide the driver's sources in the image. The container can still read it
// through the host's processes.
func DriverPod(image string, env ...string) Container {
	return Container{Image: image, Env: env, Mounts: []guest.Mount{
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
func (c Container) With(m guest.Mount) Container {
	c.Mounts = append(slices.Clone(c.Mounts), m)
	return c
}

// Without returns the container without the volume at a path.
func (c Container) Without(path string) Container {
	c.Mounts = slices.DeleteFunc(
		slices.Clone(c.Mounts),
		func(m guest.Mount) bool { return m.Guest == path },
	)
	return c
}
