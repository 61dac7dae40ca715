package node

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/node/probe"
)

// A container that is not privileged makes device files and may not open them: the cgroup of its devices refuses it, and the driver cannot be
// asked. What the driver shows in procfs has to do then: that it is this version, and which GPUs it has taken.

// sourceListed is where such an answer comes from (probe.Answer.Source).
const sourceListed = "/proc/driver/nvidia"

// notAsked is what the status says of it.
const notAsked = "the GPUs are not asked whether they work: this container is not privileged and may not open their device files; " +
	"verified is the driver's version, and that it has taken the GPUs"

// mayOpen says whether this container may open a device file. Anything but the refusal of its cgroup is the driver's to explain.
func mayOpen(device string) bool {
	fd, err := unix.Open(device, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err == nil {
		_ = unix.Close(fd) // nothing was done with it
	}
	return !errors.Is(err, unix.EPERM)
}

// listed is the answer that procfs gives.
func listed() (probe.Answer, error) {
	module, err := (kmod.System{}).Module("nvidia")
	if err != nil {
		return probe.Answer{}, err
	}
	gpus, err := realNodes.Listed()
	if err != nil {
		return probe.Answer{}, err
	}
	answer := probe.Answer{Driver: module.Version, Devices: []probe.Device{}, Source: sourceListed}
	for _, g := range gpus {
		if !g.Excluded {
			answer.Devices = append(answer.Devices, probe.Device{UUID: g.UUID, Name: g.Model, PCI: g.Address})
		}
	}
	return answer, nil
}
