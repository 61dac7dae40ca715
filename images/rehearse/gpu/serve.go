package gpu

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// The commands of QEMU 7's multi-process protocol (hw/remote/mpqemu-link.h in its sources). A
// message is a header of 16 bytes {int32 command, 4 bytes padding, uint64 size} and size bytes of
// data; numbers are in the machine's byte order. sync and setIRQ carry file descriptors and get no
// answer.
const (
	cmdSync = iota
	cmdReturn
	cmdConfigWrite // {uint32 address, uint32 value, int32 length}
	cmdConfigRead
	cmdMemoryWrite // {uint64 address, uint64 value, uint32 length, bool}
	cmdMemoryRead
	cmdSetIRQ
	cmdReset
)

const (
	headerSize = 16
	maxMessage = 4096 // the largest message, the guest's memory map, has some hundred bytes
)

// GPU is a simulated function with its server.
type GPU struct {
	// File is QEMU's end of the socket: the fd of a device x-pci-proxy-dev. Close it when QEMU has
	// been started.
	File *os.File
	ours net.Conn
	done chan error
}

// Serve simulates a model until QEMU ends or Close is called. It is the other end of QEMU's device
// x-pci-proxy-dev, which sends every access to a PCI function's configuration space and BARs over a
// socket.
func Serve(m Model) (*GPU, error) {
	conn, theirs, err := SocketPair()
	if err != nil {
		return nil, err
	}
	g := &GPU{File: theirs, ours: conn, done: make(chan error, 1)}
	go func() {
		err := serve(conn, newGPU(m))
		_ = conn.Close() // so that QEMU does not wait for an answer
		g.done <- err
	}()
	return g, nil
}

// Close ends the service and returns an error if QEMU broke the protocol. The end of QEMU is not an
// error.
func (g *GPU) Close() error {
	_ = g.File.Close() // closed already after QEMU's start
	_ = g.ours.Close()
	err := <-g.done
	g.done <- nil // for a second call
	return err
}

func serve(conn net.Conn, g *gpu) error {
	for {
		cmd, data, err := receive(conn)
		if errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) ||
			errors.Is(err, unix.ECONNRESET) {
			return nil
		}
		if err != nil {
			return err
		}
		value, answer, err := g.handle(cmd, data)
		if err != nil {
			return err
		}
		if !answer {
			continue
		}
		var out [headerSize + 8]byte
		binary.NativeEndian.PutUint32(out[0:], cmdReturn)
		binary.NativeEndian.PutUint64(out[8:], 8)
		binary.NativeEndian.PutUint64(out[headerSize:], value)
		if _, err := conn.Write(out[:]); err != nil {
			return nil //nolint:nilerr // QEMU is gone
		}
	}
}

// receive reads one message. The kernel closes the descriptors that come with it, because nobody
// asks for them: memory and interrupts are not simulated.
func receive(conn net.Conn) (cmd int32, data []byte, err error) {
	var header [headerSize]byte
	if _, err := io.ReadFull(conn, header[:]); err != nil {
		return 0, nil, fmt.Errorf("fake GPU: header: %w", err)
	}
	cmd = int32(binary.NativeEndian.Uint32(header[0:]))
	size := binary.NativeEndian.Uint64(header[8:])
	if size > maxMessage {
		return 0, nil, fmt.Errorf("fake GPU: message %d has %d bytes", cmd, size)
	}
	data = make([]byte, size)
	if _, err := io.ReadFull(conn, data); err != nil {
		return 0, nil, fmt.Errorf("fake GPU: message %d: %w", cmd, err)
	}
	return cmd, data, nil
}

// handle carries out a message and returns the answer, if the message needs one.
func (g *gpu) handle(cmd int32, data []byte) (value uint64, answer bool, err error) {
	need := map[int32]int{cmdConfigRead: 12, cmdConfigWrite: 12, cmdMemoryRead: 20, cmdMemoryWrite: 20}[cmd]
	if len(data) < need {
		return 0, false, fmt.Errorf(
			"fake GPU: message %d has %d bytes, not %d",
			cmd,
			len(data),
			need,
		)
	}
	u32 := func(at int) uint32 { return binary.NativeEndian.Uint32(data[at:]) }
	u64 := func(at int) uint64 { return binary.NativeEndian.Uint64(data[at:]) }
	switch cmd {
	case cmdSync, cmdSetIRQ:
		return 0, false, nil
	case cmdConfigRead:
		value = g.readConfig(u32(0), int(int32(u32(8))))
	case cmdConfigWrite:
		g.writeConfig(u32(0), uint64(u32(4)), int(int32(u32(8))))
	case cmdMemoryRead:
		value = g.readMemory(u64(0), int(int32(u32(16))))
	case cmdMemoryWrite:
		g.writeMemory(u64(0), u64(8), int(int32(u32(16))))
	case cmdReset:
		g.reset()
	default:
		return 0, false, fmt.Errorf("fake GPU: message %d is not known", cmd)
	}
	return value, true, nil
}
