package probe

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/node/devices"
	"github.com/driver-container/driver-container/node/status"
)

const one, two = "0000:05:00.0", "0000:06:00.0"

// node is a sysfs with GPUs, and a watch that looks at it.
type node struct {
	t   *testing.T
	sys string
	Watch
}

func newNode(t *testing.T, addresses ...string) *node {
	t.Helper()
	n := &node{t: t, sys: t.TempDir()}
	for _, a := range addresses {
		n.plug(a, "nvidia")
	}
	return n
}

func (n *node) dir(address string) string {
	return filepath.Join(n.sys, "bus/pci/devices", address)
}

func (n *node) plug(address, driver string) {
	n.t.Helper()
	for name, text := range map[string]string{"vendor": "0x10de\n", "class": "0x030200\n", "device": "0x1eb8\n", "subsystem_vendor": "0x10de\n",
		"subsystem_device": "0x12a2\n", "config": "\xde\x10\xb8\x1e", "driver_override": "(null)\n"} {
		testfile.Write(n.t, filepath.Join(n.dir(address), name), text)
	}
	n.bind(address, driver)
}

// bind binds a GPU to a driver, "" unbinds it.
func (n *node) bind(address, driver string) {
	n.t.Helper()
	_ = os.Remove(filepath.Join(n.dir(address), "driver"))
	if driver != "" {
		require.NoError(n.t, os.Symlink("../../../bus/pci/drivers/"+driver, filepath.Join(n.dir(address), "driver")))
	}
}

func (n *node) set(address, name, text string) {
	n.t.Helper()
	testfile.Write(n.t, filepath.Join(n.dir(address), name), text)
}

// changes looks once and returns what changed, a line each.
func (n *node) changes(log ...string) string {
	n.t.Helper()
	var out []string
	for _, c := range n.Look(require.Value(devices.GPUs(n.sys))(n.t), log) {
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

// TestLentAndBack: unbound, bound to vfio-pci, unbound, bound to nvidia. The other GPU works all the time,
// and nothing is broken at any time.
func TestLentAndBack(t *testing.T) {
	t.Parallel()
	n := newNode(t, one, two)
	assert.Equal(t, "GPU 0000:05:00.0 (10de:1eb8) is new\nGPU 0000:06:00.0 (10de:1eb8) is new", n.changes())
	n.Answered(answer(one, two))
	assert.Equal(t, one+" ours works\n"+two+" ours works", n.state())
	assert.Equal(t, false, n.None())
	for _, step := range []struct{ driver, override, change, state string }{
		{"", "(null)", "is lent to no driver", two + " lent lent to no driver: echo " + two + " > /sys/bus/pci/drivers/nvidia/bind gives it to this one"},
		{"", "vfio-pci", "is lent to vfio-pci", two + " lent lent to vfio-pci"},
		{"vfio-pci", "vfio-pci", "", two + " lent lent to vfio-pci"},
		{"vfio-pci", "(null)", "", two + " lent lent to vfio-pci"},
		{"", "(null)", "is lent to no driver", two + " lent lent to no driver: echo " + two + " > /sys/bus/pci/drivers/nvidia/bind gives it to this one"},
		{"nvidia", "(null)", "is the driver's again", two + " ours works"},
	} {
		n.bind(two, step.driver)
		n.set(two, "driver_override", step.override+"\n")
		n.set(two, "config", "\xff\xff\xff\xff") // its user may reset it, or let it sleep
		if step.driver == "nvidia" || step.driver == "" {
			n.set(two, "config", "\xde\x10\xb8\x1e")
		}
		want := ""
		if step.change != "" {
			want = "GPU 0000:06:00.0 (10de:1eb8) " + step.change
		}
		assert.Equalf(t, want, n.changes(), "%+v", step)
		assert.Equalf(t, one+" ours works\n"+step.state, n.state(), "%+v", step)
		assert.Equalf(t, "", n.changes(), "a second look")
	}
	n.bind(one, "vfio-pci")
	n.bind(two, "")
	n.changes()
	assert.Equal(t, true, n.None())
	assert.Equal(t, false, new(Watch).None())
}

// TestLost: each way to fall off the bus is found, the other GPU goes on, and a GPU that comes back is the
// driver's again.
func TestLost(t *testing.T) {
	t.Parallel()
	const xid = "NVRM: Xid (PCI:0000:06:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
	const lost, back = "GPU 0000:06:00.0 (10de:1eb8) fell off the bus", "GPU 0000:06:00.0 (10de:1eb8) is the driver's again"
	broken := func(how string) string {
		return one + " ours works\n" + two + " lost " + how + "\nGPU 0000:06:00.0 (10de:1eb8) fell off the bus: " + how +
			"; the other GPUs go on. Drain the node, and reset the GPU or switch the node off and on"
	}
	for name, c := range map[string]struct {
		fall, rise func(*node) string
		how        string
		absent     bool
	}{
		"all ones": {
			func(n *node) string {
				n.set(two, "config", "\xff\xff\xff\xff")
				assert.Equalf(t, "", n.changes(), "once may be a reset")
				return n.changes()
			},
			func(n *node) string { n.set(two, "config", "\xde\x10\xb8\x1e"); return n.changes() },
			"its configuration space reads as all ones", true,
		},
		"not there": {
			func(n *node) string { require.NoError(t, os.RemoveAll(n.dir(two))); return n.changes() },
			func(n *node) string { n.plug(two, "nvidia"); return n.changes() },
			"it is not on the PCI bus any more", true,
		},
		"Xid 79, and it answers again": {
			func(n *node) string { return n.changes("usb 1-1: new device", xid) },
			func(n *node) string { n.Answered(answer(one, two)); return n.changes() },
			xid, false,
		},
		"Xid 79, and it is bound anew": {
			func(n *node) string { return n.changes(xid) },
			func(n *node) string {
				n.bind(two, "")
				assert.Equal(t, "GPU 0000:06:00.0 (10de:1eb8) is lent to no driver", n.changes())
				n.bind(two, "nvidia")
				return n.changes()
			},
			xid, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNode(t, one, two)
			n.changes()
			n.Answered(answer(one, two))
			assert.Equal(t, false, n.Absent())
			assert.Equal(t, lost, c.fall(n))
			assert.Equal(t, broken(c.how), n.state())
			assert.Equal(t, 1, len(n.Lost()))
			assert.Equal(t, c.absent, n.Absent())
			assert.Equal(t, "", n.changes())
			assert.Equal(t, back, c.rise(n))
			n.Answered(answer(one, two))
			assert.Equal(t, one+" ours works\n"+two+" ours works", n.state())
			assert.Equal(t, 0, len(n.Lost()))
		})
	}
}

// TestFirstLook: what is on the bus when the driver starts.
func TestFirstLook(t *testing.T) {
	t.Parallel()
	n := newNode(t, one)
	n.plug(two, "vfio-pci")
	n.plug("0000:07:00.0", "nouveau")
	n.plug("0000:08:00.0", "")
	n.plug("0000:09:00.0", "")
	n.set("0000:09:00.0", "config", "\xff\xff\xff\xff")
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
	if strings.Contains(text, "GPU "+two) {
		t.Errorf("a lent GPU is broken:\n%s", text)
	}
}

// TestStates: all that the status has of a GPU.
func TestStates(t *testing.T) {
	t.Parallel()
	n := newNode(t, one, two)
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
	n := newNode(t, one, two)
	n.changes()
	n.bind(two, "vfio-pci")
	n.changes()
	require.NoError(t, os.RemoveAll(n.dir(two)))
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
			if !strings.HasSuffix(address, ".0") || strings.ContainsAny(address, " \n/") {
				t.Errorf("%q", address)
			}
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
