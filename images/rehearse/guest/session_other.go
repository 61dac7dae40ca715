//go:build !linux

package guest

import "syscall"

// session is that of Linux without what only Linux has.
func session() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
