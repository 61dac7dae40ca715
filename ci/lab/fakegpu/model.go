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
	Vendor uint16 // 0: NVIDIA
	VPD    string // vital product data; "": none
}

const board = 0x030200

func gpuModel(name string, device uint16, boot0, boot42 uint32) Model {
	return Model{Name: name, Device: device, Class: board, Boot0: boot0, Boot42: boot42}
}

// The models. Each comment says what 535.261.03 does with the device, closed modules first; measured with the
// real modules.
var (
	M60    = gpuModel("M60", 0x13f2, 0x124000a1, 0x124a1000)    // loads; open: ENODEV
	P100   = gpuModel("P100", 0x15f8, 0x130000a1, 0x130a1000)   // loads; open: ENODEV
	V100   = gpuModel("V100", 0x1db6, 0x140000a1, 0x140a1000)   // loads; open: ENODEV
	T4     = gpuModel("T4", 0x1eb8, 0x164000a1, 0x164a1000)     // loads; loads
	A100   = gpuModel("A100", 0x20b0, 0x170000a1, 0x170a1000)   // loads; loads
	L4     = gpuModel("L4", 0x27b8, 0x194000a1, 0x194a1000)     // loads; loads
	H100   = gpuModel("H100", 0x2330, 0x180000a1, 0x180a1000)   // loads; loads
	K80    = gpuModel("K80", 0x102d, 0x0f2200a1, 0x0f2a1000)    // ENODEV: supported through the 470.xx legacy drivers
	TooNew = gpuModel("TooNew", 0x2901, 0x1a0000a1, 0x1a0a1000) // ENODEV: not supported by this driver release
	Lost   = gpuModel("Lost", 0x1eb8, 0xffffffff, 0xffffffff)   // ENODEV: fallen off the bus
)

// Functions that are no GPUs: an NVSwitch of an HGX H100, and the ConnectX function by which the switches of
// an HGX B200 are managed, as its vital product data say. 535.261.03 probes the NVSwitch and refuses it with
// EIO, after WARNINGs of its own (SXid 10009, firmware recovery mode).
var (
	NVSwitch   = Model{Name: "NVSwitch", Device: 0x22a3, Class: 0x068000}
	Management = Model{Name: "Management", Vendor: 0x15b3, Device: 0x1021, Class: 0x020700,
		VPD: "\x82\x04\x00card\x90\x16\x00PN\x05ABCDEV0\x0bSMDL=SW_MNG\x78"}
)

// Models returns all models.
func Models() []Model { return []Model{M60, P100, V100, T4, A100, L4, H100, K80, TooNew, Lost} }
