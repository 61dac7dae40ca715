// Package fakegpu simulates NVIDIA GPUs for a guest of QEMU. It is the other end of QEMU's device
// x-pci-proxy-dev, which sends every access to a PCI function's configuration space and BARs over a socket. A
// simulated GPU has just enough registers for the driver's probe to accept or refuse the device as it would
// the real one; nothing behind them works, and no adapter ever initialises.
package fakegpu

// Model holds the values that the driver reads when it probes a device.
type Model struct {
	Name   string
	Device uint16 // PCI device id
	Class  uint32 // PCI class: 0x030200 for a board without a display, 0x030000 for one with
	Boot0  uint32 // BAR0 at 0: architecture<<24 | implementation<<20 | revision
	Boot42 uint32 // BAR0 at 0xa00: architecture<<24 | implementation<<20 | 0xa<<16 | 1<<12
}

const board = 0x030200

// The models. Each comment says what 535.261.03 does with the device, closed modules first; measured with the
// real modules.
var (
	M60    = Model{"M60", 0x13f2, board, 0x124000a1, 0x124a1000}    // loads; open: ENODEV
	P100   = Model{"P100", 0x15f8, board, 0x130000a1, 0x130a1000}   // loads; open: ENODEV
	V100   = Model{"V100", 0x1db6, board, 0x140000a1, 0x140a1000}   // loads; open: ENODEV
	T4     = Model{"T4", 0x1eb8, board, 0x164000a1, 0x164a1000}     // loads; loads
	A100   = Model{"A100", 0x20b0, board, 0x170000a1, 0x170a1000}   // loads; loads
	L4     = Model{"L4", 0x27b8, board, 0x194000a1, 0x194a1000}     // loads; loads
	H100   = Model{"H100", 0x2330, board, 0x180000a1, 0x180a1000}   // loads; loads
	K80    = Model{"K80", 0x102d, board, 0x0f2200a1, 0x0f2a1000}    // ENODEV: supported through the 470.xx legacy drivers
	TooNew = Model{"TooNew", 0x2901, board, 0x1a0000a1, 0x1a0a1000} // ENODEV: not supported by this driver release
	Lost   = Model{"Lost", 0x1eb8, board, 0xffffffff, 0xffffffff}   // ENODEV: fallen off the bus
)

// Models returns all models.
func Models() []Model { return []Model{M60, P100, V100, T4, A100, L4, H100, K80, TooNew, Lost} }
