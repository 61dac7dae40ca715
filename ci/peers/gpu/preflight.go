package gpu

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/node/preflight"
	"github.com/driver-container/driver-container/node/status"
)

// aboutGPUs are the checks of preflight that a machine must pass whose driver works. The other checks are
// about the container and the node's software.
var aboutGPUs = []string{preflight.GPUPresent, preflight.GPUDriver, preflight.GPUHealth, preflight.GPUSupported, preflight.GPUFlavour}

func askPreflight(ctx context.Context, s *session) found {
	if len(s.gpus) == 0 {
		return notAsked("/sys shows no PCI device of NVIDIA here")
	}
	in := preflight.Input{Sys: s.path("sys"), Proc: s.path("proc"), Root: s.Root, Host: s.path("proc/1/root"), RunDir: filepath.Join(s.work, "run"),
		Info:    driverinfo.Description{Driver: s.version, Branch: "R" + s.version[:3], Flavours: []string{s.flavour}},
		Release: "", Previous: s.version, GPUs: s.gpus, Flavour: s.flavour, HaveModules: true, Source: status.Adopted, Stays: true}
	if release, err := os.ReadFile(s.path("proc/sys/kernel/osrelease")); err == nil {
		in.Release = strings.TrimSpace(string(release))
	}
	in.Modules, _ = kmod.System{Sys: s.path("sys"), Proc: s.path("proc")}.Loaded()
	list := "the driver's list of GPUs is not on the machine"
	if path := s.supportedList(); path != "" {
		in.Supported, in.SupportedErr = preflight.ReadSupported(path)
		list = "with " + path
	}
	f := found{compared: "a driver that works: no check of the GPUs may block or warn (" + list + ")"}
	words, others := []string{}, 0
	for _, c := range preflight.Run(ctx, in) {
		switch {
		case !slices.Contains(aboutGPUs, c.Name):
			if c.Status == preflight.Blocked || c.Status == preflight.Warning {
				others++
			}
		case c.Status == preflight.Blocked || c.Status == preflight.Warning:
			f.differ("%s: %s", c.Name, c.Finding)
		default:
			words = append(words, c.Name+" "+string(c.Status))
		}
	}
	f.answer = fmt.Sprintf("%s; %d findings about container and node, which were not judged", strings.Join(words, ", "), others)
	return f
}

// supportedList returns the path of supported-gpus.json, "" if the machine has none.
func (s *session) supportedList() string {
	for _, pattern := range []string{"usr/share/nvidia-driver/supported-gpus.json", "usr/share/doc/NVIDIA_GLX-1.0/supported-gpus/supported-gpus.json",
		"usr/share/doc/nvidia-*/supported-gpus/supported-gpus.json", "usr/local/nvidia/share/doc/*/supported-gpus/supported-gpus.json"} {
		if list, _ := filepath.Glob(s.path(pattern)); len(list) > 0 {
			return list[0]
		}
	}
	return ""
}
