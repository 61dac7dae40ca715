package main

import (
	"errors"
	"io"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// notified are the system calls that the fake kernel answers. All programs of the container are of this
// machine's architecture, so the filter looks at the numbers only.
var notified = []uint32{unix.SYS_FINIT_MODULE, unix.SYS_INIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_UNAME}

// filter installs a filter for this thread and what it becomes, and returns the file from which the calls
// are read.
func filter() (listener int, err error) {
	const ret, jump, load = unix.BPF_RET | unix.BPF_K, unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
	program := []unix.SockFilter{{Code: load, K: 0}} // the number of the call
	for _, n := range notified {
		program = append(program, unix.SockFilter{Code: jump, Jf: 1, K: n}, unix.SockFilter{Code: ret, K: unix.SECCOMP_RET_USER_NOTIF})
	}
	program = append(program, unix.SockFilter{Code: ret, K: unix.SECCOMP_RET_ALLOW})
	prog := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	fd, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER, uintptr(unsafe.Pointer(&prog)))
	if errno != 0 {
		return 0, errno
	}
	return int(fd), nil
}

// call is struct seccomp_notif, reply is struct seccomp_notif_resp.
type call struct {
	id         uint64
	pid, flags uint32
	number     int32
	arch       uint32
	ip         uint64
	args       [6]uint64
}

type reply struct {
	id    uint64
	value int64
	errno int32
	flags uint32
}

// next waits for a system call. The error is io.EOF when no process has the filter any more.
func next(listener *os.File) (c call, err error) {
	for {
		ready := []unix.PollFd{{Fd: int32(listener.Fd()), Events: unix.POLLIN}} // older kernels do not end the other wait
		if _, err := unix.Poll(ready, -1); err != nil && !errors.Is(err, unix.EINTR) {
			return c, err
		}
		switch {
		case ready[0].Revents&unix.POLLHUP != 0:
			return c, io.EOF
		case ready[0].Revents&unix.POLLIN == 0:
			continue
		}
		c = call{}
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, listener.Fd(), unix.SECCOMP_IOCTL_NOTIF_RECV, uintptr(unsafe.Pointer(&c)))
		if errno == 0 {
			return c, nil
		}
		if !errors.Is(errno, unix.EINTR) && !errors.Is(errno, unix.ENOENT) { // ENOENT: the caller was killed
			return c, errno
		}
	}
}

// answer ends a system call with 0 or an error number.
func (c call) answer(listener *os.File, errno unix.Errno) {
	r := reply{id: c.id, errno: -int32(errno)}
	_, _, _ = unix.Syscall(unix.SYS_IOCTL, listener.Fd(), unix.SECCOMP_IOCTL_NOTIF_SEND, uintptr(unsafe.Pointer(&r))) // the caller may have been killed
}
