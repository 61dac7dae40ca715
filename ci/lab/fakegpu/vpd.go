package fakegpu

import "encoding/binary"

// vpdCapability is where the capability with the vital product data is: an address with the flag bit 15, and
// four bytes of data.
const vpdCapability = 0xd8

// addVPD appends the capability to the chain, after MSI-X.
func (g *gpu) addVPD(data string) {
	g.vpd = data
	g.config[0xc9] = vpdCapability
	g.set16(vpdCapability, 0x0003, 0)
	g.set16(vpdCapability+2, 0, 0xffff)
	g.set32(vpdCapability+4, 0, 0xffffffff)
}

// fetchVPD does what a device does when an address without the flag is written: it puts four bytes into the
// data register, and sets the flag.
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
