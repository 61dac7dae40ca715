package guest

import "syscall"

// session has QEMU end with this program, even if that is killed. It has a session of its own: a
// signal from the keyboard is for this program.
func session() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setsid: true}
}
