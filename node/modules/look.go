package modules

import (
	"slices"
	"strings"

	"github.com/driver-container/driver-container/node/status"
)

// Look compares the kernel with the states that Load or an earlier Look returned, and changes nothing. again
// says that another Load may succeed: a module that has to be replaced is not in use any more, or that of
// another program is gone.
func (g Group) Look(modules []status.Module, before []status.Companion) (states []status.Companion, again bool) {
	for _, old := range before {
		now := status.Companion{Name: old.Name}
		live := g.describe(&now, modules)
		switch {
		case now.Loaded == old.Loaded && now.SrcVersion == old.SrcVersion && now.Foreign == old.Foreign:
			now.Reason = old.Reason
			again = again || now.Reason != "" && now.Loaded && !now.Foreign && live.Refs == 0
		case now.Foreign:
			now.Reason = loadedBy(live)
		case now.Loaded:
		case old.Foreign:
			now.Reason = "the other program that had loaded it has unloaded it"
			again = true
		default:
			now.Reason = "another program has unloaded it; delete this pod to load it again"
		}
		states = append(states, now)
	}
	return states, again
}

// Unusable returns what the kernel's log says about programs that could not open a device of nvidia-fs; "" if
// it says nothing. nvidia-fs before 2.17.5 finds the driver's functions only then.
func Unusable(log []string) string {
	refused := func(line string) bool {
		return strings.Contains(line, "failing symbol_get of non-GPLONLY symbol nvidia_p2p_")
	}
	if !slices.ContainsFunc(log, refused) {
		return ""
	}
	return "a program could not open /dev/nvidia-fs*: this kernel refuses nvidia-fs before 2.17.5 the functions of the proprietary kernel modules; " +
		"use the open ones (KERNEL_MODULE_TYPE=open) with nvidia-fs 2.17.5 or newer"
}
