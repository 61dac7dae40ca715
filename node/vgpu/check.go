package vgpu

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/driver-container/driver-container/node/devices"
)

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

// Image is what the check has to know of the image and of the settings.
type Image struct {
	Driver  string // version
	Licence string // whose it needs: a value of driverinfo.VGPULicences; "": the driver is for whole GPUs
	// Strict makes a guest driver that does not fit its host, or of which that is not known, a reason not to
	// start (DISABLE_VGPU_VERSION_CHECK=false). Otherwise it is a warning, as NVIDIA's images do by default.
	Strict bool
}

// Check compares the image with the hosts of this machine's vGPUs, and looks at the files of the licence.
func (f Facts) Check(sys string, gpus []devices.GPU, image Image) Finding {
	f = f.withDefaults()
	guests, err := Detect(sys, gpus)
	switch {
	case len(guests) == 0 && image.Licence == "":
		if err != nil {
			return Finding{Doubtful, "whether a GPU is a vGPU is not known: " + err.Error(), "Run the container privileged, so that it can read the whole configuration space."}
		}
		return Finding{Fine, "no GPU is a vGPU", ""}
	case image.Licence == "":
		return Finding{Doubtful, fmt.Sprintf("%s, and the image has a driver for whole GPUs", guests[0]),
			"Use an image with a vGPU guest driver on this node: docs/vgpu.md."}
	}
	var all findings
	if err != nil {
		all.add(Doubtful, err.Error(), "Ask who runs the hypervisor: the host describes this GPU in a way that no driver of NVIDIA's does.")
	}
	f.checkHosts(guests, image, &all)
	f.checkLicence(&all)
	return all.finding()
}

// String names the GPU and its host's driver.
func (g Guest) String() string {
	if g.Host.Version == "" {
		return fmt.Sprintf("GPU %s is a vGPU, whose host does not name its driver", g.GPU.Address)
	}
	return fmt.Sprintf("GPU %s is a vGPU of a host with driver %s (%s)", g.GPU.Address, g.Host.Version, g.Host.Branch)
}

// findings is a list that becomes one answer.
type findings struct {
	level        Level
	texts, fixes []string
}

func (a *findings) add(level Level, text, fix string) {
	a.level = max(a.level, level)
	a.texts = append(a.texts, text)
	if fix != "" {
		a.fixes = append(a.fixes, fix)
	}
}

func (a *findings) finding() Finding {
	return Finding{a.level, strings.Join(a.texts, "; "), strings.Join(a.fixes, " ")}
}

// checkHosts compares the guest driver with each host.
func (f Facts) checkHosts(guests []Guest, image Image, all *findings) {
	if len(guests) == 0 {
		all.add(Fine, "no GPU says that it is a vGPU: they are whole GPUs, or their host is older than vGPU software 12", "")
		return
	}
	bad := Doubtful
	if image.Strict {
		bad = Fatal
	}
	const waive = "DISABLE_VGPU_VERSION_CHECK=true starts the driver all the same."
	file := filepath.Join(f.Drivers, CatalogueName)
	c, err := ReadCatalogue(file)
	if errors.Is(err, fs.ErrNotExist) {
		level := Fine
		if image.Strict {
			level = Fatal
		}
		all.add(level, fmt.Sprintf("%s; whether guest driver %s fits is not known, because there is no %s", guests[0], image.Driver, file),
			"Mount NVIDIA's catalogue, which the licence portal has beside the drivers, or set DISABLE_VGPU_VERSION_CHECK=true.")
		return
	}
	if err != nil {
		all.add(bad, err.Error(), "Get the catalogue from the licence portal again.")
		return
	}
	for _, g := range guests {
		if g.Host.Version == "" {
			all.add(bad, g.String()+": it cannot be compared with the guest driver "+image.Driver, waive)
			continue
		}
		switch answer := c.Match(g, image.Driver); {
		case answer.Fits:
			all.add(Fine, fmt.Sprintf("%s, and guest driver %s fits (catalogue of %s)", g, image.Driver, c.Date), "")
		case len(answer.Fitting) == 0:
			all.add(bad, fmt.Sprintf("%s: %s", g, answer.Reason), "No guest driver of the catalogue fits this host. Get a newer catalogue. "+waive)
		default:
			all.add(bad, fmt.Sprintf("%s: %s", g, answer.Reason), "Use an image with one of these guest drivers: "+some(answer.Fitting)+". "+waive)
		}
	}
}

// some lists the first versions, which are the newest.
func some(versions []string) string {
	const most = 5
	if len(versions) > most {
		return strings.Join(versions[:most], ", ") + fmt.Sprintf(" or %d others", len(versions)-most)
	}
	return strings.Join(versions, ", ")
}

// checkLicence looks at the files of the licence. nvidia-gridd refuses to start with a file that is no token,
// and a guest without a licence works for a while: only the first prevents a start.
func (f Facts) checkLicence(all *findings) {
	l, err := f.Licence()
	switch {
	case err != nil:
		all.add(Fatal, err.Error(), "Correct the files of the licence: the Secret of vgpu.licensing.secretName, or the folder that is mounted at "+f.Drivers+".")
	case len(l.Tokens) > 0 && !l.usable(f.Now()):
		all.add(Doubtful, strings.Join(l.Notes, "; "), "Without a valid token the vGPUs get no licence, and become slow.")
	case len(l.Notes) > 0:
		all.add(Doubtful, "licence: "+l.String()+"; "+strings.Join(l.Notes, "; "), "Correct the files of the licence.")
	default:
		all.add(Fine, "licence: "+l.String(), "")
	}
}
