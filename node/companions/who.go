package companions

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/node/modules"
	"github.com/driver-container/driver-container/node/status"
)

// most is the number of processes that a message names.
const most = 4

// users returns the processes that have a companion's device open, as the end of a sentence.
func (g Group) users(ctx context.Context, module string) string {
	holders, err := g.Holders(ctx, func(int) bool { return false })
	if err != nil {
		return ""
	}
	return listed(" by ", slices.DeleteFunc(holders, func(h kmod.Holder) bool { return !h.Holds(module) }))
}

// loadedBy says who loaded a companion, if it was not this program. The kernel does not tell; the processes
// of NVIDIA's sidecar are named if there are any.
func (g Group) loadedBy(live kmod.Module) string {
	text := fmt.Sprintf("%s %s was loaded by another program", live.Name, live.Version)
	names := driverinfo.Companions()
	i := slices.IndexFunc(names, func(name string) bool { return kmod.ModuleName(name) == live.Name })
	if i < 0 {
		return text
	}
	sidecar := table[names[i]].sidecar
	return text + listed(", perhaps by "+sidecar+", which runs as ", g.Programs(sidecar))
}

// Foreign says for each loaded companion that another program loaded who that may be.
func (g Group) Foreign(stack []kmod.Module, recorded []status.Module) (notes []string) {
	for _, m := range stack {
		if Is(m.Name) && !modules.Named(recorded, m.Name) {
			notes = append(notes, g.loadedBy(m))
		}
	}
	return notes
}

func listed(before string, holders []kmod.Holder) string {
	if len(holders) == 0 {
		return ""
	}
	names := make([]string, 0, most+1)
	for i, h := range holders {
		if i == most {
			names = append(names, fmt.Sprintf("and %d more", len(holders)-most))
			break
		}
		names = append(names, h.String())
	}
	return before + strings.Join(names, "; ")
}
