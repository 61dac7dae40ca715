package probe

import (
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/node/devices"
	"github.com/driver-container/driver-container/node/status"
)

const one, two = "0000:05:00.0", "0000:06:00.0"

// node is a PCI bus with GPUs, and a watch that looks at it. What a sysfs says of them, package devices reads; how
// each way to fall off the bus shows on a node, the stories of package node tell.
type node struct {
	bus []devices.GPU
	Watch
}

func newNode(addresses ...string) *node {
	n := &node{}
	for _, a := range addresses {
		n.plug(a, "nvidia")
	}
	return n
}

func (n *node) plug(address, driver string) *devices.GPU {
	n.bus = append(n.bus, devices.GPU{Function: devices.Function{Address: address, Vendor: 0x10de, Device: 0x1eb8, Driver: driver}})
	return &n.bus[len(n.bus)-1]
}

// changes looks once and returns what changed, a line each.
func (n *node) changes(log ...string) string {
	var out []string
	for _, c := range n.Look(n.bus, log) {
		out = append(out, c.String())
	}
	return strings.Join(out, "\n")
}

// state returns the GPUs as in the status, and what is broken.
func (n *node) state() string {
	states, broken := n.States(func(string) []string { return []string{"NVRM: RmInitAdapter failed"} })
	var out []string
	for _, g := range states {
		text := g.Address + " " + string(g.State)
		if g.Works {
			text += " works"
		}
		out = append(out, strings.TrimSpace(text+" "+g.Reason))
	}
	return strings.Join(append(out, broken...), "\n")
}

func answer(addresses ...string) Answer {
	a := Answer{Driver: "535.261.03", Source: SourceProbe}
	for _, address := range addresses {
		a.Devices = append(a.Devices, Device{PCI: address, Name: "Tesla T4", UUID: "GPU-" + address})
	}
	return a
}

// TestFirstLook: what is on the bus when the driver starts.
func TestFirstLook(t *testing.T) {
	t.Parallel()
	n := newNode(one)
	n.plug(two, "vfio-pci")
	n.plug("0000:07:00.0", "nouveau")
	n.plug("0000:08:00.0", "")
	n.plug("0000:09:00.0", "").Silent = true
	n.plug("0000:0a:00.0", "")
	probe := []string{"NVRM: The NVIDIA GPU 0000:0a:00.0", "NVRM: (PCI ID: 10de:1eb8) installed in this system has", "NVRM: fallen off the bus and is not responding to commands."}
	n.changes(probe...)
	n.Answered(answer(one))
	text := n.state()
	for _, want := range []string{
		one + " ours works", two + " lent lent to vfio-pci", "0000:07:00.0 taken it is bound to nouveau", "0000:08:00.0 ours NVRM: RmInitAdapter failed",
		"0000:09:00.0 lost its configuration space reads as all ones", "0000:0a:00.0 lost NVRM: fallen off the bus and is not responding to commands.",
		"GPU 0000:07:00.0 (10de:1eb8) does not initialise: it is bound to nouveau", "GPU 0000:08:00.0 (10de:1eb8) does not initialise: NVRM: RmInitAdapter failed",
	} {
		assert.Containsf(t, text, want, "states")
	}
	assert.Equalf(t, false, strings.Contains(text, "GPU "+two), "a lent GPU is broken:\n%s", text)
}

// TestStates: all that the status has of a GPU.
func TestStates(t *testing.T) {
	t.Parallel()
	n := newNode(one, two)
	n.plug("0000:07:00.0", "pci-stub")
	n.changes()
	a := answer("00000000:05:00.0")
	n.Answered(a)
	states, broken := n.States(func(string) []string { return nil })
	assert.Same(t, []status.GPU{
		{Address: one, ID: "10de:1eb8", State: status.GPUOurs, Driver: "nvidia", Name: "Tesla T4", UUID: "GPU-00000000:05:00.0", Works: true},
		{Address: two, ID: "10de:1eb8", State: status.GPUOurs, Driver: "nvidia", Reason: "the driver does not list it, and the kernel's log says nothing of it"},
		{Address: "0000:07:00.0", ID: "10de:1eb8", State: status.GPULent, Driver: "pci-stub", Reason: "lent to pci-stub"},
	}, states)
	assert.Same(t, []string{"GPU 0000:06:00.0 (10de:1eb8) does not initialise: the driver does not list it, and the kernel's log says nothing of it"}, broken)
}

// TestRemovedWhileLent: a GPU that is taken out while another driver has it is not missed.
func TestRemovedWhileLent(t *testing.T) {
	t.Parallel()
	n := newNode(one, two)
	n.changes()
	n.bus[1].Driver = "vfio-pci"
	n.changes()
	n.bus = n.bus[:1]
	assert.Equal(t, "GPU 0000:06:00.0 (10de:1eb8) was removed from the bus", n.changes())
	n.Answered(answer(one))
	assert.Equal(t, one+" ours works", n.state())
	n.plug(two, "nvidia")
	assert.Equal(t, "GPU 0000:06:00.0 (10de:1eb8) is new", n.changes())
}

func FuzzFallenOff(f *testing.F) {
	f.Add("NVRM: Xid (PCI:0000:05:00): 79, pid=1, GPU has fallen off the bus.\nNVRM: GPU 0000:06:00.0: GPU has fallen off the bus.")
	f.Add("NVRM: The NVIDIA GPU 0000:0a:00.0\nNVRM: x\nNVRM: fallen off the bus")
	f.Fuzz(func(t *testing.T, log string) {
		for address := range fallenOff(strings.Split(log, "\n")) {
			assert.Equalf(t, true, strings.HasSuffix(address, ".0") && !strings.ContainsAny(address, " \n/"), "%q", address)
		}
	})
}

// TestFallenOff: other Xids, and other devices, are no loss.
func TestFallenOff(t *testing.T) {
	t.Parallel()
	got := fallenOff([]string{
		"NVRM: Xid (PCI:0000:05:00): 31, pid=1, name=x, Ch 00000008", "NVRM: Xid (PCI:0000:06:00): 790, x", "NVRM: Xid (PCI:00010000:AB:00): 79, x", "user: NVRM: Xid (PCI:0000:07:00): 79, x",
		"NVRM: Xid (0000:08:00): 79, GPU has fallen off the bus.", "NVRM: GPU 0000:09:00.0: GPU has fallen off the bus.", "NVRM: fallen off the bus",
	})
	assert.Equal(t, 2, len(got))
	assert.Same(t, []string{"0000:81:00.0"}, Unbinding([]string{"NVRM: Attempting to remove device 0000:81:00.0 with non-zero usage count!",
		"NVRM: Attempting to remove device 0000:81:00.0 with non-zero usage count!", "x NVRM: Attempting to remove device 0000:82:00.0 with non-zero usage count!"}))
	assert.Containsf(t, got["0000:08:00.0"]+got["0000:09:00.0"], "79, GPU has fallen off the bus.NVRM: GPU 0000:09:00.0", "lines")
}
