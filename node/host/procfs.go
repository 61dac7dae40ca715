package host

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/node/probe"
)

// mayOpen reports whether this container may open a device file. Only a refusal by its cgroup counts: the
// driver explains other errors.
func mayOpen(device string) bool {
	fd, err := unix.Open(device, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err == nil {
		_ = unix.Close(fd) // the file is only opened and closed
	}
	return !errors.Is(err, unix.EPERM)
}

// answerFromProcfs returns the driver's answer for a container that is not privileged. Such a container
// creates device files, but the cgroup of its devices does not allow it to open them, so it cannot ask the
// driver. The driver's files in procfs show that it is this version, and which GPUs it uses.
func answerFromProcfs() (probe.Answer, error) {
	module, err := (kmod.System{}).Module("nvidia")
	if err != nil {
		return probe.Answer{}, err
	}
	gpus, err := realNodes.Listed()
	if err != nil {
		return probe.Answer{}, err
	}
	answer := probe.Answer{Driver: module.Version, Devices: []probe.Device{}, Source: probe.SourceProcfs}
	for _, g := range gpus {
		if !g.Excluded {
			answer.Devices = append(answer.Devices, probe.Device{UUID: g.UUID, Name: g.Model, PCI: g.Address})
		}
	}
	return answer, nil
}
