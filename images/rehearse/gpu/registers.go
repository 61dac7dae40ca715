package gpu

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"strings"
)

// bars are the memory regions. The proxy device knows 32-bit BARs only, so the three are BAR 0, 1
// and 2: with a gap before a BAR the driver would report that the BAR has no size.
var bars = [...]struct{ size, flags uint32 }{{16 << 20, 0}, {64 << 20, 8}, {32 << 20, 8}}

const (
	configSize = 256
	command    = 0x04 // offset of the command register
	firstBAR   = 0x10
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
		config:   parse(configuration),
		writable: parse(writable),
		fixed:    map[uint32]uint32{0x0: m.Boot0, 0x4: 0, 0xa00: m.Boot42}, // the identity of the chip
		bar0:     map[uint32]uint32{},
	}
	g.set16(0x00, cmp.Or(m.Vendor, 0x10de), 0)
	g.set16(0x02, m.Device, 0)
	g.set32(0x08, m.Class<<8|0xa1, 0)
	if m.VPD != "" {
		g.addVPD(m.VPD)
	}
	return g
}

// configuration is the configuration space as `lspci -xxx` prints it; lines of zeros are left out.
// The capabilities are at 0x60 power management, 0x68 MSI, 0x78 PCI Express and 0xc8 MSI-X, which
// the driver requires.
const configuration = `
00: de 10 00 00 00 00 10 00 a1 00 00 00 00 00 00 00
10: 00 00 00 00 08 00 00 00 08 00 00 00 00 00 00 00
20: 00 00 00 00 00 00 00 00 00 00 00 00 de 10 a2 12
30: 00 00 00 00 60 00 00 00 00 00 00 00 00 00 00 00
60: 01 68 03 00 08 00 00 00 05 78 80 00 00 00 00 00
70: 00 00 00 00 00 00 00 00 10 c8 02 00 e1 8d 00 00
80: 10 29 00 00 03 01 40 00 00 00 03 11 00 00 00 00
90: 00 00 00 00 00 00 00 00 00 00 00 00 12 00 00 00
a0: 00 00 00 00 0e 00 00 00 03 00 00 00 00 00 00 00
c0: 00 00 00 00 00 00 00 00 11 00 05 00 00 00 b9 00
d0: 00 00 ba 00 00 00 00 00 00 00 00 00 00 00 00 00`

// writable are the bits of it that a guest can change. Those of the BARs give their sizes.
const writable = `
00: 00 00 00 00 47 05 00 00 00 00 00 00 ff 00 00 00
10: 00 00 00 ff 00 00 00 fc 00 00 00 fe 00 00 00 00
30: 00 00 00 00 00 00 00 00 00 00 00 00 ff 00 00 00
60: 00 00 00 00 03 00 00 00 00 00 71 00 fc ff ff ff
70: ff ff ff ff ff ff 00 00 00 00 00 00 00 00 00 00
80: ff 7f 00 00 00 00 00 00 fb 01 00 00 00 00 00 00
a0: ff ff 00 00 00 00 00 00 ff ff 00 00 00 00 00 00
c0: 00 00 00 00 00 00 00 00 00 00 00 c0 00 00 00 00`

// parse reads lines of `lspci -xxx`.
func parse(dump string) (space [configSize]byte) {
	for line := range strings.Lines(strings.TrimSpace(dump)) {
		var at int
		var row []byte
		_, err := fmt.Sscanf(strings.ReplaceAll(line, " ", ""), "%x:%x", &at, &row)
		if err != nil {
			panic(err) //nolint:forbidigo // the lines are constants
		}
		copy(space[at:], row)
	}
	return space
}

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
