package qemu

import (
	"cmp"
	"encoding/binary"
)

// bars are the memory regions. The proxy device knows 32-bit BARs only, so the three are BAR 0, 1
// and 2: with a gap before a BAR the driver would report that the BAR has no size.
var bars = [...]struct{ size, flags uint32 }{{16 << 20, 0}, {64 << 20, 8}, {32 << 20, 8}}

const (
	configSize = 256
	subsystem  = 0x12a210de
	command    = 0x04 // offset of the command register
	firstBAR   = 0x10
	// firstCapability is the offset of the pointer to the chain of capabilities.
	firstCapability = 0x34
	// maxRegisters bounds how many registers of BAR0 a guest can make this process remember.
	maxRegisters = 1 << 20
)

// gpu is the state of one function.
type gpu struct {
	config   [configSize]byte
	writable [configSize]byte // mask
	vpd      string           // vital product data; "": none
	fixed    map[uint32]uint32
	bar0     map[uint32]uint32 // all other words of BAR0 are memory that is zero at first
}

func newGPU(m Model) *gpu {
	g := &gpu{
		fixed: map[uint32]uint32{0x0: m.Boot0, 0x4: 0, 0xa00: m.Boot42}, // the identity of the chip
		bar0:  map[uint32]uint32{},
	}
	g.set16(0x00, cmp.Or(m.Vendor, 0x10de), 0)
	g.set16(0x02, m.Device, 0)
	g.set16(command, 0, 0x0547)
	g.set16(0x06, 0x0010, 0) // status: the device has capabilities
	g.set32(0x08, m.Class<<8|0xa1, 0)
	g.set8(0x0c, 0, 0xff) // cache line
	for i, b := range bars {
		g.set32(firstBAR+4*i, b.flags, ^(b.size - 1))
	}
	g.set32(0x2c, subsystem, 0)
	g.set8(firstCapability, 0x60, 0)
	g.set8(0x3c, 0, 0xff) // interrupt line
	g.capabilities()
	if m.VPD != "" {
		g.addVPD(m.VPD)
	}
	return g
}

// capabilities builds the chain: 0x60 power management, 0x68 MSI, 0x78 PCI Express, 0xc8 MSI-X. The
// driver requires the last.
func (g *gpu) capabilities() {
	g.set32(0x60, 0x00036801, 0)
	g.set16(0x64, 8, 3)
	g.set32(0x68, 0x00807805, 0x00710000)
	g.set32(0x6c, 0, ^uint32(3))
	g.set32(0x70, 0, ^uint32(0))
	g.set16(0x74, 0, 0xffff)
	g.set32(0x78, 0x0002c810, 0)
	g.set32(0x7c, 0x8de1, 0)
	g.set16(0x80, 0x2910, 0x7fff)
	g.set32(0x84, 0x00400103, 0)
	g.set16(0x88, 0, 0x01fb)
	g.set16(0x8a, 0x1103, 0)
	g.set32(0x9c, 0x12, 0)
	g.set16(0xa0, 0, 0xffff)
	g.set32(0xa4, 0x0e, 0)
	g.set16(0xa8, 3, 0xffff)
	g.set32(0xc8, 0x00050011, 0xc0000000)
	g.set32(0xcc, 0x00b90000, 0)
	g.set32(0xd0, 0x00ba0000, 0)
}

func (g *gpu) set8(at int, value, mask uint8) { g.config[at], g.writable[at] = value, mask }

func (g *gpu) set16(at int, value, mask uint16) {
	binary.LittleEndian.PutUint16(g.config[at:], value)
	binary.LittleEndian.PutUint16(g.writable[at:], mask)
}

func (g *gpu) set32(at int, value, mask uint32) {
	binary.LittleEndian.PutUint32(g.config[at:], value)
	binary.LittleEndian.PutUint32(g.writable[at:], mask)
}

// reset does what a reset of the bus does: the device answers nothing until it is configured again.
func (g *gpu) reset() { g.set16(command, 0, 0x0547) }

func ones(n int) uint64 {
	if n >= 8 {
		return ^uint64(0)
	}
	return 1<<(8*n) - 1
}

// readConfig answers like hardware: all ones beyond the end.
func (g *gpu) readConfig(at uint32, n int) uint64 {
	if n < 1 || n > 4 || uint64(at)+uint64(n) > configSize {
		return ones(max(n, 1))
	}
	var v uint64
	for i := range n {
		v |= uint64(g.config[int(at)+i]) << (8 * i)
	}
	return v
}

func (g *gpu) writeConfig(at uint32, value uint64, n int) {
	if n < 1 || n > 4 || uint64(at)+uint64(n) > configSize {
		return
	}
	for i := range n {
		o := int(at) + i
		m := g.writable[int(at)+i]
		g.config[o] = g.config[o]&^m | byte(value>>(8*i))&m
	}
	if at == vpdCapability || at == vpdCapability+2 {
		g.fetchVPD()
	}
}

// region finds the BAR that holds an address of the guest's memory.
func (g *gpu) region(address uint64) (bar int, offset uint32, ok bool) {
	for i, b := range bars {
		base := uint64(binary.LittleEndian.Uint32(g.config[firstBAR+4*i:]) &^ 0xf)
		if address >= base && address-base < uint64(b.size) {
			return i, uint32(address - base), true
		}
	}
	return 0, 0, false
}

func (g *gpu) register(at uint32) uint64 {
	if v, ok := g.fixed[at]; ok {
		return uint64(v)
	}
	return uint64(g.bar0[at])
}

// readMemory reads n bytes; only BAR0 has contents.
func (g *gpu) readMemory(address uint64, n int) uint64 {
	bar, at, ok := g.region(address)
	if !ok || bar != 0 || n < 1 || n > 8 {
		return 0
	}
	first := at &^ 3
	return (g.register(first) | g.register(first+4)<<32) >> (8 * (at & 3)) & ones(n)
}

// writeMemory keeps aligned words of BAR0 and ignores all other writes.
func (g *gpu) writeMemory(address, value uint64, n int) {
	bar, at, ok := g.region(address)
	if !ok || bar != 0 || n != 4 || at&3 != 0 || len(g.bar0) >= maxRegisters {
		return
	}
	if _, identity := g.fixed[at]; !identity {
		g.bar0[at] = uint32(value)
	}
}

// vpdCapability is where the capability with the vital product data is: an address with the flag
// bit 15, and four bytes of data.
const vpdCapability = 0xd8

// addVPD appends the capability to the chain, after MSI-X.
func (g *gpu) addVPD(data string) {
	g.vpd = data
	g.config[0xc9] = vpdCapability
	g.set16(vpdCapability, 0x0003, 0)
	g.set16(vpdCapability+2, 0, 0xffff)
	g.set32(vpdCapability+4, 0, 0xffffffff)
}

// fetchVPD does what a device does when an address without the flag is written: it puts four bytes
// into the data register, and sets the flag.
func (g *gpu) fetchVPD() {
	at := binary.LittleEndian.Uint16(g.config[vpdCapability+2:])
	if g.vpd == "" || at&0x8000 != 0 {
		return
	}
	var word [4]byte
	if int(at) < len(g.vpd) {
		copy(word[:], g.vpd[at:])
	}
	copy(g.config[vpdCapability+4:], word[:])
	binary.LittleEndian.PutUint16(g.config[vpdCapability+2:], at|0x8000)
}
