package gpu

import (
	"encoding/binary"
	"io"
	"net"
	"testing"
	"time"

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
	g := require.Value(Serve(m))(t)
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
		assert.Equalf(t, want, ^uint32(q.config(at, 4)&^0xf)+1, "bytes of BAR %d", i)
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
