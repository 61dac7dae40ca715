package fakegpu

// Host is a driver of a hypervisor as a vGPU names it: at most 10 bytes each.
type Host struct {
	Version string // "550.144.02"
	Branch  string // "R550_00"
}

// vgpuCapability is where a vGPU has the vendor's own capability, before the others: 31 of the 32 bytes up to
// the first of a whole GPU.
const vgpuCapability = 0x40

// addHost puts the capability of a vGPU at the head of the chain: id, next, length, signature, and records of
// id, length and content. Record 0 is that of the host; the one before it is for a reader to pass over.
func (g *gpu) addHost(h Host) {
	record := [22]byte{0, 22}
	copy(record[2:12], h.Version)
	copy(record[12:], h.Branch)
	c := append([]byte{0x09, g.config[firstCapability], 0, 'V', 'F', 1, 4, 0, 0}, record[:]...)
	c[2] = byte(len(c))
	copy(g.config[vgpuCapability:], c)
	g.config[firstCapability] = vgpuCapability
}
