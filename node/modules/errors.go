package modules

import (
	"fmt"
	"strings"

	"github.com/driver-container/driver-container/kmod"
)

// InUseError says that the driver cannot be unloaded because somebody holds it.
type InUseError struct {
	Holders []kmod.Holder // empty: something inside of the kernel
	Module  string        // the module that was refused or has references without a known holder; may be empty
	Note    string        // who loaded the module, if it was not this program; may be empty
}

func (e *InUseError) Error() string {
	// NVIDIA's own container prints the first sentence; people search their logs for it.
	text := "Could not unload NVIDIA driver kernel modules, driver is in use"
	if len(e.Holders) == 0 {
		return text + fmt.Sprintf(": no process has its device files open, yet module %s has references (a kernel module or a mapping of a process that this container cannot see: run with hostPID)", e.Module) + e.note()
	}
	return text + " by " + processes(e.Holders) + ". Stop these processes, or delete their pods" + e.note()
}

func (e *InUseError) note() string {
	if e.Note == "" {
		return ""
	}
	return ". " + e.Note
}

// processes names the first of some processes.
func processes(holders []kmod.Holder) string {
	const most = 8
	var names []string
	for _, h := range holders[:min(most, len(holders))] {
		names = append(names, h.String())
	}
	if more := len(holders) - most; more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, "; ")
}
