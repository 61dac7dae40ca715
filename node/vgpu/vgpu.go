// Package vgpu knows what a machine with vGPUs needs of the guest's driver: the licence daemons with their
// files.
//
// It reads the files of a licence, and says what is wrong with them. It does not supervise the daemons, ask
// the driver or a licence server, or verify signatures of tokens: only the licence server has the key. It does
// not compare the driver with the host's: choose an image that fits.
package vgpu

import (
	"fmt"
	"strings"

	"github.com/driver-container/driver-container/node/probe"
)

// Check looks at the files of the licence. licence is whose the image's driver needs: a value of
// driverinfo.VGPULicences; "": the driver is for whole GPUs. nvidia-gridd refuses to start with a file that is
// no token, and a guest without a licence works for a while: only the first prevents a start (fatal). Without a fix all is well.
func (f Facts) Check(licence string) (text, fix string, fatal bool) {
	if licence == "" {
		return "the image has no driver for vGPUs", "", false
	}
	f = f.withDefaults()
	l, err := f.Licence()
	switch {
	case err != nil:
		return err.Error(), "Correct the files of the licence: the Secret of vgpu.licensing.secretName, or the folder that is mounted at " + f.Drivers + ".", true
	case len(l.Tokens) > 0 && !l.Usable:
		return strings.Join(l.Notes, "; "), "Without a valid token the vGPUs get no licence, and become slow.", false
	case len(l.Notes) > 0:
		return "licence: " + l.String() + "; " + strings.Join(l.Notes, "; "), "Correct the files of the licence.", false
	}
	return "licence: " + l.String(), "", false
}

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
