package gpu

// Model holds the values that the driver reads when it probes a simulated device. It has just
// enough registers for the driver's probe to accept or refuse the device as it would the real one;
// nothing behind them works, and no adapter ever initialises.
type Model struct {
	Name   string
	Device uint16 // PCI device id
	Class  uint32 // PCI class: 0x030200 for a board without a display, 0x030000 for one with
	Boot0  uint32 // BAR0 at 0: architecture<<24 | implementation<<20 | revision
	Boot42 uint32 // BAR0 at 0xa00: architecture<<24 | implementation<<20 | 0xa<<16 | 1<<12
	Vendor uint16 // 0: NVIDIA
	VPD    string // vital product data; "": none
}

// The GPUs, all boards without a display. 535.261.03 loads with the T4 and the A100, the closed
// modules and the open ones; for the K80, which is older, 470 is the last branch.
var (
	K80  = Model{Name: "K80", Device: 0x102d, Class: 0x030200, Boot0: 0x0f2000a1, Boot42: 0x0f2a1000}
	T4   = Model{Name: "T4", Device: 0x1eb8, Class: 0x030200, Boot0: 0x164000a1, Boot42: 0x164a1000}
	A100 = Model{
		Name:   "A100",
		Device: 0x20b0,
		Class:  0x030200,
		Boot0:  0x170000a1,
		Boot42: 0x170a1000,
	}
)

// Functions that are no GPUs: an NVSwitch of an HGX H100, and the ConnectX function by which the
// switches of an HGX B200 are managed, as its vital product data say. 535.261.03 probes the
// NVSwitch and refuses it with EIO, after WARNINGs of its own (SXid 10009, firmware recovery mode).
var (
	NVSwitch   = Model{Name: "NVSwitch", Device: 0x22a3, Class: 0x068000}
	Management = Model{Name: "Management", Vendor: 0x15b3, Device: 0x1021, Class: 0x020700,
		VPD: "\x82\x04\x00card\x90\x16\x00PN\x05ABCDEV0\x0bSMDL=SW_MNG\x78"}
)
