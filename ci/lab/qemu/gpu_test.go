package qemu

import (
	"encoding/binary"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

// link is the test's replacement for QEMU at its end of the socket.
type link struct {
	t    *testing.T
	conn net.Conn
}

func connect(t *testing.T, m Model) (*link, *GPU) {
	t.Helper()
	g := Serve(t, m)
	conn := require.Value(net.FileConn(g.File))(t)
	g.File.Close()
	require.NoError(t, conn.SetDeadline(time.Now().Add(2*time.Minute)))
	t.Cleanup(func() { conn.Close(); g.Close() })
	return &link{t, conn}, g
}

func message(cmd int32, body ...any) []byte {
	var data []byte
	for _, v := range body {
		data, _ = binary.Append(data, binary.NativeEndian, v)
	}
	header, _ := binary.Append(nil, binary.NativeEndian, struct{ Cmd, Pad int32 }{cmd, 0})
	header = binary.NativeEndian.AppendUint64(header, uint64(len(data)))
	return append(header, data...)
}

func (q *link) send(cmd int32, body ...any) {
	q.t.Helper()
	require.Value(q.conn.Write(message(cmd, body...)))(q.t)
}

func (q *link) ask(cmd int32, body ...any) uint64 {
	q.t.Helper()
	q.send(cmd, body...)
	var answer [24]byte
	require.Value(io.ReadFull(q.conn, answer[:]))(q.t)
	if answer[0] != cmdReturn || answer[8] != 8 {
		q.t.Fatalf("answer %x", answer)
	}
	return binary.NativeEndian.Uint64(answer[16:])
}

func (q *link) config(at uint32, n int32) uint64 { return q.ask(cmdConfigRead, at, uint32(0), n) }
func (q *link) setConfig(at, v uint32, n int32)  { q.ask(cmdConfigWrite, at, v, n) }
func (q *link) memory(at uint64, n uint32) uint64 {
	return q.ask(cmdMemoryRead, at, uint64(0), n, true)
}
func (q *link) setMemory(at, v uint64, n uint32) { q.ask(cmdMemoryWrite, at, v, n, true) }

// TestBARs asks for the BARs' sizes and sets their addresses, as a BIOS does.
func TestBARs(t *testing.T) {
	t.Parallel()
	q, _ := connect(t, T4)
	for i, want := range []uint32{16 << 20, 64 << 20, 32 << 20} {
		at := uint32(0x10 + 4*i)
		q.setConfig(at, 0xffffffff, 4)
		if got := ^uint32(q.config(at, 4)&^0xf) + 1; got != want {
			t.Errorf("BAR %d has %#x bytes, not %#x", i, got, want)
		}
		q.setConfig(at, uint32(0xe0000000+i<<27), 4)
	}
	q.setMemory(0xe0000000, 0x12345678, 4) // the identity is read only
	assert.Equalf(t, uint64(T4.Boot0), q.memory(0xe0000000, 4), "BOOT_0")
	q.setMemory(0xe0001000, 0xcafe, 4)
	assert.Equalf(t, 0xcafe, q.memory(0xe0001000, 4), "BAR0 is not memory")
	assert.Equalf(t, 0xca, q.memory(0xe0001001, 1), "a byte of it")
	assert.Equalf(t, 0xcafe<<32, q.memory(0xe0000ffc, 8), "two words of it")
	q.setMemory(0xe8000000, 1, 4)
	assert.Equalf(t, 0, q.memory(0xe8000000, 4), "BAR1 keeps")
	assert.Equalf(t, 0, q.memory(0x1000, 4), "no BAR is there")
}

// TestCapabilities: the driver refuses a device without MSI-X.
func TestCapabilities(t *testing.T) {
	t.Parallel()
	q, _ := connect(t, T4)
	found := map[uint64]bool{}
	for at := q.config(0x34, 1); at != 0 && len(found) < 10; at = q.config(uint32(at)+1, 1) {
		found[q.config(uint32(at), 1)] = true
	}
	for _, id := range []uint64{0x01, 0x05, 0x10, 0x11} {
		if !found[id] {
			t.Errorf("capability %#x is not there: %v", id, found)
		}
	}
	q.setConfig(4, 0x0507, 2)
	assert.Equalf(t, 0x0507, q.config(4, 2), "command")
	q.ask(cmdReset)
	assert.Equalf(t, 0, q.config(4, 2), "command after a reset")
	assert.Equalf(t, 0xffffffff, q.config(0xfe, 4), "beyond the end")
}

// TestDescriptors: descriptors are closed if they come with a message that needs no answer.
func TestDescriptors(t *testing.T) {
	t.Parallel()
	q, _ := connect(t, T4)
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	conn, ok := q.conn.(*net.UnixConn)
	if !ok {
		t.Fatalf("%T", q.conn)
	}
	if _, _, err := conn.WriteMsgUnix(message(cmdSync, [100]byte{}), unix.UnixRights(int(w.Fd())), nil); err != nil {
		t.Fatal(err)
	}
	w.Close()
	q.send(cmdSetIRQ, uint64(0))
	assert.Equalf(t, 0x10de, q.config(0, 2), "after messages without an answer")
	require.NoError(t, r.SetReadDeadline(time.Now().Add(time.Minute)))
	assert.ErrorIsf(t, assert.Err(r.Read(make([]byte, 1))), io.EOF, "the descriptor is still open")
}

func TestBrokenProtocol(t *testing.T) {
	t.Parallel()
	huge := message(cmdConfigRead)
	huge[14] = 1
	for name, bytes := range map[string][]byte{
		"unknown": message(99), "short body": message(cmdMemoryRead, uint32(1)), "huge": huge,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q, g := connect(t, T4)
			require.Value(q.conn.Write(bytes))(t)
			_, _ = q.conn.Read(make([]byte, 1)) // returns when the function under test hangs up, or when the other end is closed
			assert.Errorf(t, g.Close(), "it was accepted")
		})
	}
}

func FuzzHandle(f *testing.F) {
	f.Add(int32(cmdConfigRead), message(0, uint32(4), uint32(0), int32(4))[16:])
	f.Add(int32(cmdConfigWrite), message(0, uint32(0xfe), uint32(1), int32(-4))[16:])
	f.Add(int32(cmdMemoryRead), message(0, uint64(0xffffffffffffffff), uint64(0), uint32(8))[16:])
	f.Add(int32(cmdMemoryWrite), message(0, uint64(3), uint64(1), uint32(4))[16:])
	f.Fuzz(func(t *testing.T, cmd int32, data []byte) {
		g := newGPU(T4)
		if _, _, err := g.handle(cmd, data); err != nil {
			return
		}
		assert.Equalf(t, 0x1eb810de, g.readConfig(0, 4), "the guest changed the identity")
	})
}

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
