// Package gpu simulates GPUs for QEMU: enough of their registers for NVIDIA's kernel modules to
// load. QEMU sends every access to them over a socket. No adapter ever initialises.
package gpu

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
)

// SocketPair returns this process's end of a pair of sockets, and the end for another process.
func SocketPair() (net.Conn, *os.File, error) {
	syscall.ForkLock.RLock() // only Linux makes sockets that no other program gets, in one call
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(fds[0])
		syscall.CloseOnExec(fds[1])
	}
	syscall.ForkLock.RUnlock()
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
