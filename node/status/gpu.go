package status

import "fmt"

// GPU is a device on the PCI bus and the result of its initialisation.
type GPU struct {
	Address string   `json:"address"`          // on the PCI bus
	ID      string   `json:"id"`               // "10de:1eb8"
	State   GPUState `json:"state,omitempty"`  // ours, lent, taken or lost, see docs/hardware.md
	Driver  string   `json:"driver,omitempty"` // the driver that it is bound to: nvidia, vfio-pci
	Name    string   `json:"name,omitempty"`   // model, as NVML or the kernel module gives it
	UUID    string   `json:"uuid,omitempty"`   // from NVML
	Works   bool     `json:"works"`            // whether it initialised
	// the kernel's message, if it does not work, or who has it
	Reason string `json:"reason,omitempty"`
	// Fabric is its registration with the NVLink fabric: not started, in progress, completed,
	// unknown; empty: it has none.
	Fabric string `json:"fabric,omitempty"`
	// Licence is that of a vGPU when the driver was last asked: licensed, licensed until a time,
	// unlicensed, unknown with the reason; empty: the GPU needs none.
	Licence string `json:"licence,omitempty"`
}

// unlicensed is the Licence of a vGPU without one.
const unlicensed = "unlicensed"

// Unlicensed says whether the GPU is a vGPU that has no licence now.
func (g GPU) Unlicensed() bool { return g.Licence == unlicensed }

// GPUState says whose a GPU is.
type GPUState string

// States of a GPU. docs/hardware.md explains each of them.
const (
	GPUOurs GPUState = "ours" // the driver's, or free for it
	// not the driver's on purpose: bound to another one, reserved for one, or unbound
	GPULent  GPUState = "lent"
	GPUTaken GPUState = "taken" // a graphics driver of the kernel has it
	GPULost  GPUState = "lost"  // it fell off the bus
)

// Expected says whether the driver has to serve the GPU, so that the node misses it if it does not
// work.
func (g GPU) Expected() bool { return g.State != GPULent }

// CountGPUs returns how many GPUs work, of how many that the driver has to serve, and how many it
// has not.
func CountGPUs(gpus []GPU) (working, expected, others int) {
	for _, g := range gpus {
		if !g.Expected() {
			others++
			continue
		}
		expected++
		if g.Works {
			working++
		}
	}
	return working, expected, others
}

// text describes the GPU for users.
func (g GPU) text() string {
	switch {
	case g.Works:
		return g.Name
	case !g.Expected():
		return g.Reason
	case g.State == GPULost:
		return "lost: " + g.Reason
	}
	return fmt.Sprintf("does not work: %s", g.Reason)
}
