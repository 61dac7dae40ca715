package vgpu

import (
	"fmt"
	"strings"

	"github.com/driver-container/driver-container/node/probe"
)

// What GPUs without a vGPU licence mean for a node.
const (
	LicenceWarn    = "warn"    // the node is ready; metrics and status say it
	LicenceRequire = "require" // the node is not ready
)

// Unlicensed says which GPUs have no licence; "" if all have one, or need none. The text has no time in it,
// so that it is reported once.
func Unlicensed(gpus []probe.Device) string {
	var without []string
	for _, g := range gpus {
		if g.Licence != nil && !g.Licence.Licensed && g.Licence.Error == "" {
			without = append(without, g.PCI)
		}
	}
	if len(without) == 0 {
		return ""
	}
	return fmt.Sprintf("vGPU without a licence: %s; it becomes slow after some minutes to a day: look at the state of nvidia-gridd, the token and the licence server",
		strings.Join(without, ", "))
}
