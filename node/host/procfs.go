package host

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/node/probe"
)

// mayOpen says whether this container may open a device file. Only a refusal of its cgroup counts: the driver
// explains other errors.
func mayOpen(device string) bool {
	fd, err := unix.Open(device, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err == nil {
		_ = unix.Close(fd) // nothing was done with it
	}
	return !errors.Is(err, unix.EPERM)
}

// answerFromProcfs is for a container that is not privileged: it makes device files and may not open them,
// because the cgroup of its devices refuses that, so the driver cannot be asked. Its files in procfs show
// that it is this version, and which GPUs it has taken.
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
