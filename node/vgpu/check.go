package vgpu

import "strings"

// Level is how bad a finding is.
type Level int

// Levels of findings.
const (
	Fine Level = iota
	Doubtful
	Fatal
)

// Finding is the answer of the check before a start.
type Finding struct {
	Level     Level
	Text, Fix string
}

// Check looks at the files of the licence. licence is whose the image's driver needs: a value of
// driverinfo.VGPULicences; "": the driver is for whole GPUs. nvidia-gridd refuses to start with a file that is
// no token, and a guest without a licence works for a while: only the first prevents a start.
func (f Facts) Check(licence string) Finding {
	if licence == "" {
		return Finding{Fine, "the image has no driver for vGPUs", ""}
	}
	f = f.withDefaults()
	l, err := f.Licence()
	switch {
	case err != nil:
		return Finding{Fatal, err.Error(), "Correct the files of the licence: the Secret of vgpu.licensing.secretName, or the folder that is mounted at " + f.Drivers + "."}
	case len(l.Tokens) > 0 && !l.usable(f.Now()):
		return Finding{Doubtful, strings.Join(l.Notes, "; "), "Without a valid token the vGPUs get no licence, and become slow."}
	case len(l.Notes) > 0:
		return Finding{Doubtful, "licence: " + l.String() + "; " + strings.Join(l.Notes, "; "), "Correct the files of the licence."}
	}
	return Finding{Fine, "licence: " + l.String(), ""}
}
