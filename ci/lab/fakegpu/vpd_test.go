package fakegpu

import (
	"encoding/binary"
	"strings"
	"testing"
)

// The kernel reads vital product data as specified: it writes an address, waits for the flag, and reads four
// bytes.
func TestVPD(t *testing.T) {
	t.Parallel()
	g := newGPU(Management)
	if id, next := g.readConfig(0xc9, 1), g.readConfig(vpdCapability, 1); id != vpdCapability || next != 3 {
		t.Fatalf("the chain leads to %#x, which is %#x", id, next)
	}
	var all []byte
	for at := 0; at < len(Management.VPD); at += 4 {
		g.writeConfig(vpdCapability+2, uint64(at), 2)
		if g.readConfig(vpdCapability+2, 2) != uint64(at)|0x8000 {
			t.Fatalf("no flag at %d", at)
		}
		all = binary.LittleEndian.AppendUint32(all, uint32(g.readConfig(vpdCapability+4, 4)))
	}
	if got := strings.TrimRight(string(all), "\x00"); got != strings.TrimRight(Management.VPD, "\x00") {
		t.Errorf("%q", got)
	}
	if other := newGPU(T4); other.readConfig(0xc9, 1) != 0 {
		t.Error("a GPU has vital product data")
	}
}
