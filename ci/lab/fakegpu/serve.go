package fakegpu

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// The commands of QEMU 7's multi-process protocol (hw/remote/mpqemu-link.h in its sources). A message is a
// header of 16 bytes {int32 command, 4 bytes padding, uint64 size} and size bytes of data; numbers are in the
// machine's byte order. sync and setIRQ carry file descriptors and get no answer.
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
	maxFDs     = 64
)

// GPU is a simulated function with its server.
type GPU struct {
	// File is QEMU's end of the socket: the fd of a device x-pci-proxy-dev. Close it when QEMU has been started.
	File *os.File
	ours *net.UnixConn
	done chan error
}

// Serve simulates a model until QEMU ends or Close is called.
func Serve(m Model) (*GPU, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("fake GPU %s: socket: %w", m.Name, err)
	}
	theirs, mine := os.NewFile(uintptr(fds[0]), "gpu"), os.NewFile(uintptr(fds[1]), "gpu")
	conn, err := net.FileConn(mine)
	err = errors.Join(err, mine.Close())
	unixConn, ok := conn.(*net.UnixConn)
	if err != nil || !ok {
		return nil, errors.Join(fmt.Errorf("fake GPU %s: socket", m.Name), err, theirs.Close())
	}
	g := &GPU{File: theirs, ours: unixConn, done: make(chan error, 1)}
	go func() {
		err := serve(unixConn, newGPU(m))
		_ = unixConn.Close() // so that QEMU does not wait for an answer
		g.done <- err
	}()
	return g, nil
}

// Close ends the service and returns an error if QEMU broke the protocol. The end of QEMU is not an error.
func (g *GPU) Close() error {
	_ = g.File.Close() // closed already after QEMU's start
	_ = g.ours.Close()
	err := <-g.done
	g.done <- nil // for a second call
	return err
}

func serve(conn *net.UnixConn, g *gpu) error {
	for {
		cmd, data, err := receive(conn)
		if errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) || errors.Is(err, unix.ECONNRESET) {
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

// receive reads one message and closes the descriptors that come with it: memory and interrupts are not
// simulated.
func receive(conn *net.UnixConn) (cmd int32, data []byte, err error) {
	var header [headerSize]byte
	oob := make([]byte, unix.CmsgSpace(4*maxFDs))
	n, oobn, _, _, err := conn.ReadMsgUnix(header[:], oob)
	if err != nil {
		return 0, nil, err
	}
	if n == 0 {
		return 0, nil, io.EOF
	}
	if err := closeRights(oob[:oobn]); err != nil {
		return 0, nil, err
	}
	if _, err := io.ReadFull(conn, header[n:]); err != nil {
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

func closeRights(oob []byte) error {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return fmt.Errorf("fake GPU: control message: %w", err)
	}
	for _, m := range messages {
		fds, err := unix.ParseUnixRights(&m)
		if err != nil {
			continue // not descriptors
		}
		for _, fd := range fds {
			_ = unix.Close(fd)
		}
	}
	return nil
}

// handle carries out a message and returns the answer, if the message needs one.
func (g *gpu) handle(cmd int32, data []byte) (value uint64, answer bool, err error) {
	need := map[int32]int{cmdConfigRead: 12, cmdConfigWrite: 12, cmdMemoryRead: 20, cmdMemoryWrite: 20}[cmd]
	if len(data) < need {
		return 0, false, fmt.Errorf("fake GPU: message %d has %d bytes, not %d", cmd, len(data), need)
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
