// Package fabric knows the NVLink fabric of a machine: whether there is one that this node has to
// manage, which programs, kernel modules and settings that takes, and what the GPUs say about it.
//
// Up to NVLink 4 (HGX and DGX with V100, A100, H100, H200) the NVSwitches are PCI functions, and
// the fabric manager configures them. With NVLink 5 (HGX and DGX with B100, B200, B300) they are
// not: the host reaches them through ConnectX functions on the baseboard, and needs the NVLink
// subnet manager (NVLSM) besides. In racks such as GB200 NVL72 the switches have computers of their
// own, and a node manages nothing.
//
// The package runs nothing itself: package daemons supervises what Daemons returns.
package fabric

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/node/devices"
)

// Who manages the NVLink switches of a machine.
const (
	Auto     = "auto"     // this container, if there are any
	External = "external" // another program, such as a service of the host; ready waits for it
	Ignore   = "ignore"   // nobody; ready does not ask for it
)

// Machine is what the PCI bus says about a machine's fabric.
type Machine struct {
	Switches   []string // addresses of NVSwitches up to NVLink 4
	Lent       []string // of NVSwitches that a virtual machine has (vfio-pci)
	Bridges    []string // of ConnectX functions by which NVLink 5 switches are managed
	Unreadable []string // why the vital product data of a ConnectX function could not be read
	Rack       []string // GPUs whose switches have computers of their own
	Baseboard  []string // GPUs that are only made for baseboards with NVLink 5 switches
}

// PCI device ids of GPUs by the place of their switches. The driver binds every NVIDIA function of
// class bridge/other as an NVSwitch.
var (
	rackGPUs      = []uint16{0x2941, 0x31c2, 0x31c3} // GB200, GB300
	baseboardGPUs = []uint16{0x2901, 0x29bc, 0x3182} // B200, B100, B300
	managementTag = []byte("SMDL=SW_MNG")            // of the VPD of a management function
	classBridge   = func(c uint32) bool { return c>>8 == 0x0680 }
	classNetwork  = func(c uint32) bool { return c>>16 == 0x02 }
)

// Detect looks at the PCI bus below sys. It needs no kernel module: the VPD is there without the
// drivers of the network card.
func Detect(sys string, gpus []devices.GPU) (Machine, error) {
	var m Machine
	for _, g := range gpus {
		switch {
		case slices.Contains(rackGPUs, g.Device):
			m.Rack = append(m.Rack, g.Address)
		case slices.Contains(baseboardGPUs, g.Device):
			m.Baseboard = append(m.Baseboard, g.Address)
		}
	}
	found, err := devices.Functions(sys, func(f devices.Function) bool {
		return f.Vendor == devices.NVIDIA && classBridge(f.Class) ||
			f.Vendor == devices.Mellanox && classNetwork(f.Class)
	})
	if err != nil {
		return m, fmt.Errorf("look for NVLink switches: %w", err)
	}
	for _, f := range found {
		switch {
		case f.Vendor == devices.NVIDIA && f.Driver == "vfio-pci":
			m.Lent = append(m.Lent, f.Address)
		case f.Vendor == devices.NVIDIA:
			m.Switches = append(m.Switches, f.Address)
		case !f.Virtual:
			m.lookAt(f, sys)
		}
	}
	return m, nil
}

// lookAt reads the VPD of a network card. One that has none, or that cannot be read, is an ordinary
// card for all that is known.
func (m *Machine) lookAt(card devices.Function, sys string) {
	switch vpd, err := card.VPD(sys); {
	case err != nil:
		m.Unreadable = append(m.Unreadable, err.Error())
	case bytes.Contains(vpd, managementTag):
		m.Bridges = append(m.Bridges, card.Address)
	}
}

// NVLink5 reports whether this node manages switches through ConnectX functions.
func (m Machine) NVLink5() bool { return len(m.Bridges) > 0 && len(m.Rack) == 0 }

// Managed reports whether this node has to run a fabric manager.
func (m Machine) Managed() bool { return len(m.Rack) == 0 && (m.NVLink5() || len(m.Switches) > 0) }

// String says in words what was found.
func (m Machine) String() string {
	switch {
	case len(m.Rack) > 0:
		return "the NVLink switches of this GPU's rack manage themselves"
	case m.NVLink5():
		return "NVLink 5 switches, managed through " + list(m.Bridges, "ConnectX function")
	case len(m.Switches) > 0:
		return list(m.Switches, "NVSwitch")
	case len(m.Lent) > 0:
		return list(m.Lent, "NVSwitch") + ", lent to a virtual machine (vfio-pci)"
	}
	return "no NVLink switches"
}

func list(addresses []string, what string) string {
	if len(addresses) == 1 {
		return "1 " + what + " (" + addresses[0] + ")"
	}
	plural := map[bool]string{true: "es", false: "s"}[strings.HasSuffix(what, "ch")]
	return fmt.Sprintf("%d %s%s (%s)", len(addresses), what, plural, strings.Join(addresses, ", "))
}

// coherentGPUs are the PCI device ids of GPUs whose memory the processor (Grace) reaches
// coherently: GH200 (three boards), GB200 and GB300. The kernel's vfio driver for them,
// nvgrace-gpu, has the same list.
var coherentGPUs = []uint16{0x2342, 0x2345, 0x2348, 0x2941, 0x31c2}

const (
	coherentMode = "NVreg_CoherentGPUMemoryMode=driver"
	imexChannel  = "NVreg_CreateImexChannel0=1"
	// coherentFrom is the first branch whose nvidia.ko has the parameter.
	coherentFrom = 580
)

// Parameters returns the parameters of module nvidia that a machine gets before those of the
// administrator, whose values count.
//
// On coherent machines the driver keeps the GPU memory to itself from R580 on. Otherwise the kernel
// adds that memory as NUMA nodes, and the kubelet reports it as memory of the node. channel0 asks
// for the IMEX channel that programs share which do not get one from a ComputeDomain.
func Parameters(driver string, gpus []devices.GPU, channel0 bool) (params []string) {
	coherent := func(g devices.GPU) bool { return slices.Contains(coherentGPUs, g.Device) }
	if driverinfo.Branch(driver) >= coherentFrom && slices.ContainsFunc(gpus, coherent) {
		params = append(params, coherentMode)
	}
	if channel0 {
		params = append(params, imexChannel)
	}
	return params
}
