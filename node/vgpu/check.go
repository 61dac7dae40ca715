package vgpu

import "strings"

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
	case len(l.Tokens) > 0 && !l.usable(f.Now()):
		return strings.Join(l.Notes, "; "), "Without a valid token the vGPUs get no licence, and become slow.", false
	case len(l.Notes) > 0:
		return "licence: " + l.String() + "; " + strings.Join(l.Notes, "; "), "Correct the files of the licence.", false
	}
	return "licence: " + l.String(), "", false
}
