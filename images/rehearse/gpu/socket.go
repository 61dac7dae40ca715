// Package gpu simulates GPUs for QEMU: enough of their registers for NVIDIA's kernel modules to
// load. QEMU sends every access to them over a socket. No adapter ever initialises.
package gpu

import (
	"errors"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// SocketPair returns this process's end of a pair of sockets, and the end for another process.
func SocketPair() (net.Conn, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make a pair of sockets: %w", err)
	}
	mine := os.NewFile(uintptr(fds[0]), "socket")
	theirs := os.NewFile(uintptr(fds[1]), "socket")
	conn, err := net.FileConn(mine)
	err = errors.Join(err, mine.Close())
	if err != nil {
		return nil, nil, errors.Join(err, theirs.Close())
	}
	return conn, theirs, nil
}
