// Package qemu simulates GPUs for QEMU. QEMU sends every access to them over a socket.
package qemu

import (
	"errors"
	"net"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/ci/testkit/require"
)

// SocketPair returns this process's end and QEMU's.
func SocketPair(t testing.TB) (net.Conn, *os.File) {
	t.Helper()
	fds := require.Value(unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0))(t)
	mine := os.NewFile(uintptr(fds[0]), "socket")
	theirs := os.NewFile(uintptr(fds[1]), "socket")
	conn, err := net.FileConn(mine)
	require.NoError(t, errors.Join(err, mine.Close()))
	return conn, theirs
}
